package state

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// DiffPolicy lists what differs between two normalised policies, by the names
// of cluster.toml: the cluster's settings first, then who
// goes first, licenses, switches, and the partitions by name.
func DiffPolicy(before, after *Policy) []*pb.PolicyChange {
	changes := diffSettings(nil, "", policySettings(before), policySettings(after))
	changes = diffShares(changes, before, after)
	var names []string
	for _, policy := range []*Policy{before, after} {
		for i := range policy.Partitions {
			names = append(names, policy.Partitions[i].Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		changes = diffSettings(changes, "partitions."+name+".",
			partitionSettings(before.Partition(name)), partitionSettings(after.Partition(name)))
	}
	return changes
}

type setting struct{ key, value string }

// diffSettings compares two lists in the same order of keys; one may be empty,
// for a partition that is new or removed.
func diffSettings(changes []*pb.PolicyChange, prefix string, before, after []setting) []*pb.PolicyChange {
	for i := range max(len(before), len(after)) {
		var old, new, key string
		if i < len(before) {
			key, old = before[i].key, before[i].value
		}
		if i < len(after) {
			key, new = after[i].key, after[i].value
		}
		if old != new {
			changes = append(changes, &pb.PolicyChange{Path: prefix + key, Before: old, After: new})
		}
	}
	return changes
}

func policySettings(p *Policy) []setting {
	return []setting{
		{"cluster_name", p.ClusterName},
		{"administrators", strings.Join(p.Administrators, ",")},
		{"min_job_age_s", fmt.Sprint(p.MinJobAgeS)},
		{"kill_wait_s", fmt.Sprint(p.KillWaitS)},
		{"max_array_size", fmt.Sprint(p.MaxArraySize)},
		{"max_job_count", fmt.Sprint(p.MaxJobCount)},
		{"lease_s", fmt.Sprint(p.LeaseS)},
		{"lease_margin_s", fmt.Sprint(p.MarginS())},
		{"requeue_exit", formatExitCodes(p.RequeueExit)},
		{"requeue_exit_hold", formatExitCodes(p.RequeueExitHold)},
	}
}

func partitionSettings(p *Partition, exists bool) []setting {
	if !exists {
		return nil
	}
	memory := ""
	if p.DefaultMemoryPerCPU > 0 {
		memory = spec.FormatSize(p.DefaultMemoryPerCPU)
	}
	defaultTime := ""
	if p.DefaultTimeS > 0 {
		defaultTime = spec.FormatTime(p.DefaultTimeS)
	}
	return append([]setting{
		{"nodes", p.Nodes},
		{"default", fmt.Sprint(p.Default)},
		{"up", fmt.Sprint(p.Up)},
		{"max_time", spec.FormatTime(p.MaxTimeS)},
		{"default_time", defaultTime},
		{"priority_tier", fmt.Sprint(p.PriorityTier)},
		{"default_memory_per_cpu", memory},
		{"allow_root_jobs", fmt.Sprint(p.AllowRootJobs)},
		{"lease_action", p.LeaseAction},
		{"allow_groups", strings.Join(p.AllowGroups, ",")},
	}, p.shareSettings()...)
}
