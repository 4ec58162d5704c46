package control

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// limitUseJSON is what counts for limits now. Amounts are by the name of each
// TRES, memory in bytes, and over time in MiB.
type limitUseJSON struct {
	Jobs           uint64            `json:"jobs"`
	Submitted      uint64            `json:"submitted_jobs"`
	WallMinutes    uint64            `json:"wall_minutes"`
	TRES           map[string]uint64 `json:"tres"`
	TRESMinutes    map[string]uint64 `json:"tres_minutes"`
	TRESRunMinutes map[string]uint64 `json:"tres_run_minutes"`
}

type associationLimitsJSON struct {
	ID        uint32       `json:"id"`
	Account   string       `json:"account"`
	User      string       `json:"user"`
	Partition string       `json:"partition"`
	Parent    string       `json:"parent_account"`
	Limits    []limitJSON  `json:"limits"`
	Used      limitUseJSON `json:"used"`
}

type qosLimitsJSON struct {
	Name     string        `json:"name"`
	Limits   []limitJSON   `json:"limits"`
	Used     limitUseJSON  `json:"used"`
	Accounts []useWithJSON `json:"accounts"`
	Users    []useWithJSON `json:"users"`
}

type useWithJSON struct {
	Name string       `json:"name"`
	UID  uint32       `json:"uid,omitempty"`
	Used limitUseJSON `json:"used"`
}

type limitJSON struct {
	Limit string `json:"limit"`
	TRES  string `json:"tres,omitempty"`
	Value uint64 `json:"value"`
}

type limitUserJSON struct {
	Name           string `json:"name"`
	DefaultAccount string `json:"default_account"`
	AdminLevel     string `json:"administrator_level"`
}

func (c *controlRun) writeLimitsJSON(all *pb.ListLimitsResponse) error {
	stream := show.NewJSONStream(c.inv.Stdout, "users", c.json)
	for _, user := range all.Users {
		if err := stream.Add(limitUserJSON{user.Name, user.DefaultAccount, account.LevelText(user.Level)}); err != nil {
			return err
		}
	}
	if err := stream.Next("associations"); err != nil {
		return err
	}
	for _, record := range all.Associations {
		a := record.GetAssociation()
		err := stream.Add(associationLimitsJSON{
			ID: a.GetId(), Account: a.GetAccount(), User: a.GetUser(), Partition: a.GetPartition(), Parent: a.GetParentAccount(),
			Limits: limitsJSON(a.GetLimits(), false), Used: useJSON(all.Tres, record.GetUse()),
		})
		if err != nil {
			return err
		}
	}
	if err := stream.Next("qos"); err != nil {
		return err
	}
	for _, record := range all.Qos {
		q := qosLimitsJSON{
			Name: record.GetQos().GetName(), Limits: limitsJSON(record.GetQos().GetLimits(), true), Used: useJSON(all.Tres, record.GetUse()),
			Accounts: []useWithJSON{}, Users: []useWithJSON{},
		}
		for _, within := range record.GetWithin() {
			if within.GetAccount() != "" {
				q.Accounts = append(q.Accounts, useWithJSON{Name: within.GetAccount(), Used: useJSON(all.Tres, within.GetUse())})
			} else {
				q.Users = append(q.Users, useWithJSON{Name: within.GetUser(), UID: within.GetUid(), Used: useJSON(all.Tres, within.GetUse())})
			}
		}
		if err := stream.Add(q); err != nil {
			return err
		}
	}
	return stream.End(c.inv)
}

func useJSON(tres []string, use *pb.LimitUse) limitUseJSON {
	amounts := func(values []uint64) map[string]uint64 {
		by := make(map[string]uint64, len(values))
		for i, value := range values[:min(len(values), len(tres))] {
			by[tres[i]] = value
		}
		return by
	}
	return limitUseJSON{
		Jobs: use.GetJobs(), Submitted: use.GetSubmitted(), WallMinutes: use.GetWallMinutes(),
		TRES: amounts(use.GetTres()), TRESMinutes: amounts(use.GetTresMinutes()), TRESRunMinutes: amounts(use.GetTresRunMinutes()),
	}
}

// limitNames are sacctmgr's, of associations, and of QOS where they differ.
var limitNames = map[pb.LimitKind][2]string{
	pb.LimitKind_LIMIT_KIND_GROUP_JOBS: {"GrpJobs"}, pb.LimitKind_LIMIT_KIND_GROUP_SUBMIT: {"GrpSubmitJobs"},
	pb.LimitKind_LIMIT_KIND_GROUP_TRES: {"GrpTRES"}, pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES: {"GrpTRESMins"},
	pb.LimitKind_LIMIT_KIND_GROUP_TRES_RUN_MINUTES: {"GrpTRESRunMins"}, pb.LimitKind_LIMIT_KIND_GROUP_WALL_MINUTES: {"GrpWall"},
	pb.LimitKind_LIMIT_KIND_MAX_JOBS: {"MaxJobs", "MaxJobsPerUser"}, pb.LimitKind_LIMIT_KIND_MAX_SUBMIT: {"MaxSubmitJobs", "MaxSubmitJobsPerUser"},
	pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB: {"MaxTRESPerJob"}, pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_NODE: {"MaxTRESPerNode"},
	pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB: {"MaxTRESMinsPerJob"}, pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES: {"MaxWallDurationPerJob"},
	pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER: {"MaxTRESPerUser"}, pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_ACCOUNT: {"MaxTRESPerAccount"},
	pb.LimitKind_LIMIT_KIND_MAX_JOBS_PER_ACCOUNT: {"MaxJobsPerAccount"}, pb.LimitKind_LIMIT_KIND_MAX_SUBMIT_PER_ACCOUNT: {"MaxSubmitJobsPerAccount"},
	pb.LimitKind_LIMIT_KIND_MIN_TRES_PER_JOB: {"MinTRESPerJob"},
}

func limitsJSON(limits []*pb.Limit, ofQOS bool) []limitJSON {
	out := make([]limitJSON, 0, len(limits))
	for _, limit := range limits {
		name := limitNames[limit.GetKind()][0]
		if other := limitNames[limit.GetKind()][1]; ofQOS && other != "" {
			name = other
		}
		out = append(out, limitJSON{Limit: name, TRES: limit.GetTres(), Value: limit.GetValue()})
	}
	return out
}
