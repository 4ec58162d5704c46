package sched

import "strings"

// LimitKind is one of the limits that there are (sacctmgr(1)).
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
	LimitLicenses // not of accounting: there are no more of them
)

// overTime says whether the limit is in minutes.
func (k LimitKind) overTime() bool {
	switch k {
	case LimitGroupWall, LimitMaxWall, LimitGroupTRESMinutes, LimitGroupTRESRunMinutes, LimitMaxTRESMinutesPerJob:
		return true
	}
	return false
}

// limitKinds has, for each kind, what it is called where it is set, for an
// association and for a QOS; whether it counts all of a group, and whether it
// bounds what may wait; and Slurm's reasons ("Job Reason Codes" in
// resource_limits), with * in the place of the TRES.
var limitKinds = [...]struct {
	association, qos              string
	group, submit                 bool
	associationReason, qosReason  string
	associationTRES, qosTRESWords *tresWords
}{
	LimitGroupJobs:            {"GrpJobs", "GrpJobs", true, false, "AssocGrpJobsLimit", "QOSGrpJobsLimit", nil, nil},
	LimitGroupWall:            {"GrpWall", "GrpWall", true, false, "AssocGrpWallLimit", "QOSGrpWallLimit", nil, nil},
	LimitGroupTRES:            {"GrpTRES", "GrpTRES", true, false, "AssocGrp*", "QOSGrp*", &longWords, &longWords},
	LimitGroupTRESMinutes:     {"GrpTRESMins", "GrpTRESMins", true, false, "AssocGrp*", "QOSGrp*", &minuteWords, &qosMinuteWords},
	LimitGroupTRESRunMinutes:  {"GrpTRESRunMins", "GrpTRESRunMins", true, false, "AssocGrp*", "QOSGrp*", &runMinuteWords, &qosRunMinuteWords},
	LimitMaxJobs:              {"MaxJobs", "MaxJobsPerUser", false, false, "AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit", nil, nil},
	LimitMaxJobsPerAccount:    {"", "MaxJobsPerAccount", false, false, "", "MaxJobsPerAccount", nil, nil},
	LimitMaxTRESPerUser:       {"", "MaxTRESPerUser", false, false, "", "QOSMax*", nil, &perUserWords},
	LimitMaxTRESPerAccount:    {"", "MaxTRESPerAccount", false, false, "", "Max*PerAccount", nil, &qosWords},
	LimitMaxTRESPerJob:        {"MaxTRESPerJob", "MaxTRESPerJob", false, false, "AssocMax*", "QOSMax*", &perJobWords, &qosPerJobWords},
	LimitMaxTRESPerNode:       {"MaxTRESPerNode", "MaxTRESPerNode", false, false, "AssocMax*PerNode", "QOSMax*PerNode", &plainWords, &qosWords},
	LimitMaxTRESMinutesPerJob: {"MaxTRESMinsPerJob", "MaxTRESMinsPerJob", false, false, "AssocMax*", "QOSMax*", &minutesPerJobWords, &qosMinutesPerJobWords},
	LimitMaxWall:              {"MaxWall", "MaxWall", false, false, "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit", nil, nil},
	LimitMinTRESPerJob:        {"", "MinTRESPerJob", false, false, "", "QOSMin*", nil, &leastWords},
	LimitGroupSubmit:          {"GrpSubmitJobs", "GrpSubmitJobs", true, true, "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit", nil, nil},
	LimitMaxSubmit:            {"MaxSubmitJobs", "MaxSubmitJobsPerUser", false, true, "AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", nil, nil},
	LimitMaxSubmitPerAccount:  {"", "MaxSubmitJobsPerAccount", false, true, "", "MaxSubmitJobsPerAccount", nil, nil},
	LimitLicenses:             {"", "", false, false, "Licenses", "Licenses", nil, nil},
}

// tresWords is how a family of Slurm's reasons writes each kind of TRES: it is
// not the same in any two of them.
type tresWords struct{ billing, cpu, gres, license, memory, node string }

var (
	plainWords            = tresWords{"Billing", "Cpu", "GRES", "License", "Mem", "Node"}
	qosWords              = tresWords{"Billing", "Cpu", "GRES", "License", "Memory", "Node"}
	longWords             = tresWords{"Billing", "CpuLimit", "GRES", "License", "MemLimit", "NodeLimit"}
	minuteWords           = tresWords{"BillingMinutes", "CPUMinutesLimit", "GRESMinutes", "LicenseMinutes", "MemMinutes", "NodeMinutes"}
	qosMinuteWords        = tresWords{"BillingMinutes", "CPUMinutesLimit", "GRESMinutes", "LicenseMinutes", "MemoryMinutes", "NodeMinutes"}
	runMinuteWords        = tresWords{"BillingRunMinutes", "CPURunMinutesLimit", "GRESRunMinutes", "LicenseRunMinutes", "MemRunMinutes", "NodeRunMinutes"}
	qosRunMinuteWords     = tresWords{"BillingRunMinutes", "CPURunMinutesLimit", "GRESRunMinutes", "LicenseRunMinutes", "MemoryRunMinutes", "NodeRunMinutes"}
	perJobWords           = tresWords{"BillingPerJob", "CpuPerJobLimit", "GRESPerJob", "LicensePerJob", "MemPerJob", "NodePerJobLimit"}
	qosPerJobWords        = tresWords{"BillingPerJob", "CpuPerJobLimit", "GRESPerJob", "LicensePerJob", "MemoryPerJob", "NodePerJobLimit"}
	minutesPerJobWords    = tresWords{"BillingMinutesPerJob", "CpuMinutesPerJobLimit", "GRESMinutesPerJob", "LicenseMinutesPerJob", "MemMinutesPerJob", "NodeMinutesPerJob"}
	qosMinutesPerJobWords = tresWords{"BillingMinutesPerJob", "CpuMinutesPerJobLimit", "GRESMinutesPerJob", "LicenseMinutesPerJob", "MemoryMinutesPerJob", "NodeMinutesPerJob"}
	perUserWords          = tresWords{"BillingPerUser", "CpuPerUserLimit", "GRESPerUser", "LicensePerUser", "MemoryPerUser", "NodePerUserLimit"}
	leastWords            = tresWords{"Billing", "CpuNotSatisfied", "GRES", "License", "Memory", "Node"}
)

// of is the word for a TRES.
func (w *tresWords) of(name string) string {
	switch {
	case name == TRESBilling:
		return w.billing
	case name == TRESCPU:
		return w.cpu
	case name == TRESMemory:
		return w.memory
	case name == TRESNode:
		return w.node
	case strings.HasPrefix(name, tresLicense):
		return w.license
	}
	return w.gres
}

// Reason is Slurm's word for having reached the limit.
func (r *LimitReached) Reason(s Snapshot) string {
	kind := &limitKinds[r.Kind]
	word, tres := kind.associationReason, kind.associationTRES
	if r.QOS >= 0 {
		word, tres = kind.qosReason, kind.qosTRESWords
	}
	if tres == nil {
		return word
	}
	return strings.Replace(word, "*", tres.of(s.TRES[r.TRES]), 1)
}

// Setting is what the limit is called where it is set: "GrpTRES=cpu".
func (r *LimitReached) Setting(s Snapshot) string {
	name := limitKinds[r.Kind].association
	if r.QOS >= 0 {
		name = limitKinds[r.Kind].qos
	}
	if r.TRES >= 0 {
		name += "=" + s.TRES[r.TRES]
	}
	return name
}
