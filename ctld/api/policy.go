package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Bounds of what a policy may say: a number beyond them is a typing error.
const (
	minLeaseS     = 1         // a node renews three times within it
	maxLeaseS     = 24 * 3600 // a silent node would be trusted for days
	maxKillWaitS  = 24 * 3600
	maxImageWaitS = 7 * 24 * 3600 // after that an administrator has to look anyway
	maxMinJobAgeS = 366 * 24 * 3600
	maxJobCount   = 50_000_000
	maxRate       = 1_000_000
	maxRateTable  = 1 << 20
	maxRateTimeS  = 3600
)

// ApplyPolicy returns what another policy would change, and puts it in force
// unless it is a dry run.
func (s *Controller) ApplyPolicy(ctx context.Context, request *pb.ApplyPolicyRequest) (*pb.ApplyPolicyResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if request.GetPolicy() == nil {
		return nil, invalid("the request holds no policy")
	}
	if err := checkPolicy(request.GetPolicy()); err != nil {
		return nil, err
	}
	wanted, err := policy.Normalize(policy.FromMessage(request.GetPolicy()))
	if err != nil {
		return nil, invalid("%v", err)
	}
	view := s.cluster.View()
	answer := &pb.ApplyPolicyResponse{Changes: policy.Diff(view.Policy(), wanted)}
	if err := checkRemoved(view, wanted); err != nil {
		return nil, err
	}
	if refused := view.UnknownNames(wanted); refused != nil {
		return nil, refusal(refused)
	}
	if request.GetDryRun() || len(answer.Changes) == 0 {
		return answer, nil
	}
	if _, err := s.propose(ctx, state.ApplyPolicy{Policy: *wanted}, id); err != nil {
		return nil, err
	}
	return answer, nil
}

// checkPolicy refuses figures that can only be a mistake. 0 is the default.
func checkPolicy(policy *pb.Policy) error {
	for _, figure := range []struct {
		name             string
		value, low, high uint32
	}{
		{"lease", policy.GetLeaseS(), minLeaseS, maxLeaseS},
		{"lease_margin", policy.GetLeaseMarginS(), 1, maxLeaseS},
		{"kill_wait", policy.GetKillWaitS(), 1, maxKillWaitS},
		{"image_wait", policy.GetImageWaitS(), 1, maxImageWaitS},
		{"min_job_age", policy.GetMinJobAgeS(), 1, maxMinJobAgeS},
		{"max_job_count", policy.GetMaxJobCount(), 1, maxJobCount},
		{"max_submit_jobs_per_user", policy.GetMaxSubmitJobsPerUser(), 1, maxJobCount},
		{"rl_bucket_size", policy.GetRateLimit().GetBucketSize(), 1, maxRate},
		{"rl_refill_rate", policy.GetRateLimit().GetRefillRate(), 1, maxRate},
		{"rl_refill_period", policy.GetRateLimit().GetRefillPeriodS(), 1, maxRateTimeS},
		{"rl_table_size", policy.GetRateLimit().GetTableSize(), 16, maxRateTable},
		{"rl_log_freq", policy.GetRateLimit().GetLogFreqS(), 1, maxRateTimeS},
	} {
		if figure.value != 0 && (figure.value < figure.low || figure.value > figure.high) {
			return invalid("%s = %d is not sensible: use %d to %d", figure.name, figure.value, figure.low, figure.high)
		}
	}
	return nil
}

// checkRemoved refuses, before anything is proposed and in a dry run too, to
// remove partitions while jobs are in them.
func checkRemoved(view *state.View, wanted *policy.Policy) error {
	removed := make(map[string]int)
	for i := range view.Policy().Partitions {
		name := view.Policy().Partitions[i].Name
		if _, kept := wanted.Partition(name); !kept {
			removed[name] = 0
		}
	}
	if len(removed) == 0 {
		return nil
	}
	for job := range view.LiveJobs() {
		in := job.Spec.Partitions
		if job.Run != nil {
			in = []string{job.Run.Partition}
		}
		for _, name := range in {
			if _, gone := removed[name]; gone {
				removed[name]++
			}
		}
	}
	for _, partition := range view.Policy().Partitions {
		if removed[partition.Name] > 0 {
			return status.Errorf(codes.FailedPrecondition, "partition %s cannot be removed: %d jobs wait or run in it; set up = false, wait for them or cancel them, then remove it", partition.Name, removed[partition.Name])
		}
	}
	return nil
}

// ShowConfig returns the policy in force and the controller's settings, under
// Slurm's keys where there is one (slurm.conf(5)).
func (s *Controller) ShowConfig(ctx context.Context, _ *pb.ShowConfigRequest) (*pb.ShowConfigResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	site := view.Policy()
	number := func(value uint32) string { return strconv.FormatUint(uint64(value), 10) }
	entries := []*pb.ConfigEntry{
		{Key: "ClusterName", Value: site.ClusterName},
		{Key: "GLEANER_VERSION", Value: s.options.Version},
		// What programs written for Slurm look for: toil how often to ask, others what they
		// may ask for.
		{Key: "SLURM_VERSION", Value: spec.LikeSlurm},
		{Key: "SchedulerTimeSlice", Value: "30 sec"},
		{Key: "AcctGatherNodeFreq", Value: "0 sec"},
		{Key: "KillWait", Value: number(site.KillWaitS) + " sec"},
		{Key: "MaxArraySize", Value: number(site.MaxArraySize)},
		{Key: "MaxJobCount", Value: number(site.MaxJobCount)},
		{Key: "MaxScriptSize", Value: number(spec.MaxScriptBytes)},
		{Key: "MaxSubmitJobsPerUser", Value: number(site.MaxSubmitJobs())},
		{Key: "MinJobAge", Value: number(site.MinJobAgeS) + " sec"},
		{Key: "SlurmdTimeout", Value: number(site.LeaseS) + " sec"},
		{Key: "SlurmctldHost[0]", Value: s.options.HostName},
	}
	entries = append(entries, site.Settings()...)
	entries = append(entries, site.DefaultMemory.Entries()...)
	if !may.hidesOwners() {
		entries = append(entries, site.OwnerEntries()...)
		entries = append(entries, site.BorrowerEntries()...)
	}
	if !may.hides("nodes") && !may.hides("users") {
		entries = append(entries, site.LoginEntries()...)
	}
	again, held := site.RequeueExits()
	entries = append(entries, &pb.ConfigEntry{Key: "RequeueExit", Value: cmp.Or(again, "(null)")}, &pb.ConfigEntry{Key: "RequeueExitHold", Value: cmp.Or(held, "(null)")})
	if awaited := view.Awaited(); len(awaited) > 0 && !may.hides("nodes") {
		// Since a restore; nothing starts before they have registered.
		entries = append(entries, &pb.ConfigEntry{Key: "AwaitedNodes", Value: spec.FormatHostList(awaited)})
	}
	for key, value := range s.options.Settings {
		entries = append(entries, &pb.ConfigEntry{Key: key, Value: value})
	}
	slices.SortFunc(entries, func(a, b *pb.ConfigEntry) int {
		switch {
		case a.Key < b.Key:
			return -1
		case a.Key > b.Key:
			return 1
		}
		return 0
	})
	return &pb.ShowConfigResponse{Policy: may.policy(policy.Message(site)), Entries: entries}, nil
}
