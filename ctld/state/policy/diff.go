package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Diff lists what differs between two normalised policies, by the names
// of cluster.toml: the cluster's settings first, then the order of jobs,
// licenses, owners, switches, and the partitions by name.
func Diff(before, after *Policy) []*pb.PolicyChange {
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
	return append([]setting{
		{"cluster_name", p.ClusterName},
		{"administrators", strings.Join(p.Administrators, ",")},
		{"min_job_age_s", fmt.Sprint(p.MinJobAgeS)},
		{"kill_wait_s", fmt.Sprint(p.KillWaitS)},
		{"max_array_size", fmt.Sprint(p.MaxArraySize)},
		{"max_job_count", fmt.Sprint(p.MaxJobCount)},
		{"lease_s", fmt.Sprint(p.LeaseS)},
		{"lease_margin_s", fmt.Sprint(p.MarginS())},
		{"image_wait_s", fmt.Sprint(p.ImageWaitS())},
		{"requeue_exit", formatExitCodes(p.RequeueExit)},
		{"requeue_exit_hold", formatExitCodes(p.RequeueExitHold)},
		{"private_data", strings.Join(p.PrivateData, ",")},
		{"network", p.SiteNetwork().String()},
		{"max_submit_jobs_per_user", fmt.Sprint(p.MaxSubmitJobs())},
	}, slices.Concat(p.Outside.settings(), p.GangRange.settings(), p.DefaultMemory.settings(), p.Rate.settings(), p.Mail.settings())...)
}

func partitionSettings(p *Partition, exists bool) []setting {
	if !exists {
		return nil
	}
	memory := DefaultMemory{PerCPU: p.DefaultMemoryPerCPU, PerGPU: p.DefaultMemoryPerGPU}
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
		{"allow_root_jobs", fmt.Sprint(p.AllowRootJobs)},
		{"lease_action", p.LeaseAction},
		{"allow_groups", strings.Join(p.AllowGroups, ",")},
		{"network", p.Network.String()},
	}, slices.Concat(p.Outside.settings(), memory.settings(), p.shareSettings())...)
}

// diffShares lists the differences in the order of jobs, in licenses, owners and
// switches.
func diffShares(changes []*pb.PolicyChange, before, after *Policy) []*pb.PolicyChange {
	changes = diffSettings(changes, "priority.", before.Priority.settings(), after.Priority.settings())
	changes = diffNamed(changes, "priority.weight_tres.", before.Priority.WeightTRES, after.Priority.WeightTRES,
		func(w *TRESWeight) string { return w.Name }, func(w *TRESWeight) []setting {
			return []setting{{"", strconv.FormatInt(w.Weight, 10)}}
		})
	changes = diffSettings(changes, "", before.enforcement(), after.enforcement())
	changes = diffSettings(changes, "scheduler.", before.Scheduler.settings(), after.Scheduler.settings())
	changes = diffNamed(changes, "licenses.", before.Licenses, after.Licenses,
		func(l *License) string { return l.Name }, func(l *License) []setting {
			return []setting{{".count", fmt.Sprint(l.Count)}}
		})
	changes = diffOwners(changes, before, after)
	changes = diffBorrowers(changes, before, after)
	changes = diffLogins(changes, before, after)
	changes = diffSettings(changes, "images.", before.Images.settings(), after.Images.settings())
	return diffNamed(changes, "switches.", before.Switches, after.Switches,
		func(s *Switch) string { return s.Name }, func(s *Switch) []setting {
			return []setting{{".nodes", s.Nodes}, {".switches", spec.FormatHostList(s.Switches)}}
		})
}

// diffNamed compares two lists of named records, ascending by name.
func diffNamed[T any](changes []*pb.PolicyChange, prefix string, before, after []T, name func(*T) string, settings func(*T) []setting) []*pb.PolicyChange {
	for len(before) > 0 || len(after) > 0 {
		var old, new []setting
		order := 0
		switch {
		case len(after) == 0:
			order = -1
		case len(before) == 0:
			order = 1
		default:
			order = cmp.Compare(name(&before[0]), name(&after[0]))
		}
		path := prefix
		if order >= 0 {
			path, new, after = prefix+name(&after[0]), settings(&after[0]), after[1:]
		}
		if order <= 0 {
			path, old, before = prefix+name(&before[0]), settings(&before[0]), before[1:]
		}
		changes = diffSettings(changes, path, old, new)
	}
	return changes
}
