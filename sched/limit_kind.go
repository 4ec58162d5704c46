package sched

// LimitKind is one of the limits of sacctmgr(1).
type LimitKind uint8

// Kinds of limit. Those of a group bound an association with all below it, or
// a QOS; Max and Min bound one job, or one user or account.
const (
	LimitGroupJobs LimitKind = iota
	LimitGroupWall
	LimitGroupTRES
	LimitGroupTRESMinutes
	LimitGroupTRESRunMinutes
	LimitMaxJobs
	LimitMaxJobsPerAccount
	LimitMaxTRESPerUser
	LimitMaxTRESPerAccount
	LimitMaxTRESPerJob
	LimitMaxTRESPerNode
	LimitMaxTRESMinutesPerJob
	LimitMaxWall
	LimitMinTRESPerJob
	LimitGroupSubmit
	LimitMaxSubmit
	LimitMaxSubmitPerAccount
	LimitLicenses // not of accounting: no more of them are free
)

// OverTime reports whether the limit is in minutes.
func (k LimitKind) OverTime() bool {
	switch k {
	case LimitGroupWall, LimitMaxWall, LimitGroupTRESMinutes, LimitGroupTRESRunMinutes, LimitMaxTRESMinutesPerJob:
		return true
	}
	return false
}

// limitKinds has, for each kind, whether it counts all of a group, and whether it
// bounds what may wait.
var limitKinds = [...]struct{ group, submit bool }{
	LimitGroupJobs:            {true, false},
	LimitGroupWall:            {true, false},
	LimitGroupTRES:            {true, false},
	LimitGroupTRESMinutes:     {true, false},
	LimitGroupTRESRunMinutes:  {true, false},
	LimitMaxJobs:              {false, false},
	LimitMaxJobsPerAccount:    {false, false},
	LimitMaxTRESPerUser:       {false, false},
	LimitMaxTRESPerAccount:    {false, false},
	LimitMaxTRESPerJob:        {false, false},
	LimitMaxTRESPerNode:       {false, false},
	LimitMaxTRESMinutesPerJob: {false, false},
	LimitMaxWall:              {false, false},
	LimitMinTRESPerJob:        {false, false},
	LimitGroupSubmit:          {true, true},
	LimitMaxSubmit:            {false, true},
	LimitMaxSubmitPerAccount:  {false, true},
	LimitLicenses:             {false, false},
}
