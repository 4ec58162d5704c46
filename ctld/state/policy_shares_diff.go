package state

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// diffShares lists what differs in who goes first, in licenses and switches.
func diffShares(changes []*pb.PolicyChange, before, after *Policy) []*pb.PolicyChange {
	changes = diffSettings(changes, "priority.", before.Priority.settings(), after.Priority.settings())
	changes = diffNamed(changes, "priority.weight_tres.", before.Priority.WeightTRES, after.Priority.WeightTRES,
		func(w *TRESWeight) string { return w.Name }, func(w *TRESWeight) []setting {
			return []setting{{"", strconv.FormatInt(w.Weight, 10)}}
		})
	changes = diffSettings(changes, "", before.enforcement(), after.enforcement())
	changes = diffNamed(changes, "licenses.", before.Licenses, after.Licenses,
		func(l *License) string { return l.Name }, func(l *License) []setting {
			return []setting{{".count", fmt.Sprint(l.Count)}}
		})
	return diffNamed(changes, "switches.", before.Switches, after.Switches,
		func(s *Switch) string { return s.Name }, func(s *Switch) []setting {
			return []setting{{".nodes", s.Nodes}, {".switches", spec.FormatHostList(s.Switches)}}
		})
}

// diffNamed compares two lists of what has names, ascending by them.
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

func (p *PriorityPolicy) settings() []setting {
	return []setting{
		{"weight_age", fmt.Sprint(p.WeightAge)},
		{"weight_assoc", fmt.Sprint(p.WeightAssociation)},
		{"weight_fair_share", fmt.Sprint(p.WeightFairShare)},
		{"weight_job_size", fmt.Sprint(p.WeightJobSize)},
		{"weight_partition", fmt.Sprint(p.WeightPartition)},
		{"weight_qos", fmt.Sprint(p.WeightQOS)},
		{"max_age", spec.FormatTime(p.maxAgeS())},
		{"decay_half_life", spec.FormatTime(p.halfLifeS())},
		{"usage_reset_period", p.UsageReset.String()},
		{"favor_small", fmt.Sprint(p.FavorSmall)},
		{"small_relative_to_time", fmt.Sprint(p.SmallRelativeToTime)},
		{"max_tres", fmt.Sprint(p.MaxTRES)},
	}
}

func (p *Policy) enforcement() []setting {
	return []setting{
		{"preempt.type", preemptTypeWord(p.Preempt.Type)},
		{"preempt.mode", preemptModeWord(cmp.Or(p.Preempt.Mode, sched.PreemptOff))},
		{"preempt.exempt_time_s", fmt.Sprint(p.Preempt.ExemptTimeS)},
		{"accounting.enforce", p.Accounting.words()},
	}
}

// shareSettings are those of a partition that say who goes first in it; "" is
// the default, so that a new partition shows what it says.
func (p *Partition) shareSettings() []setting {
	return []setting{
		{"priority_job_factor", unless(1, p.jobFactor())},
		{"tres_billing_weights", spec.FormatBillingWeights(p.billingWeights())},
		{"qos", p.QOS},
		{"preempt_mode", preemptModeWord(p.PreemptMode)},
		{"grace_time_s", unless(0, p.GraceTimeS)},
		{"allow_accounts", strings.Join(p.AllowAccounts, ",")},
		{"allow_qos", strings.Join(p.AllowQOS, ",")},
		{"exclusive", wordOf(exclusiveWords, uint8(p.Exclusive))},
	}
}

// unless is a number, or "" for the usual one.
func unless(usual, n uint32) string {
	if n == usual {
		return ""
	}
	return fmt.Sprint(n)
}

// Settings are what the policy says of who goes first, under Slurm's keys
// (slurm.conf(5)), as scontrol shows them.
func (p *Policy) Settings() []*pb.ConfigEntry {
	q := &p.Priority
	flags := []string{}
	for _, flag := range []struct {
		is   bool
		word string
	}{{q.SmallRelativeToTime, "SMALL_RELATIVE_TO_TIME"}, {q.MaxTRES, "MAX_TRES"}} {
		if flag.is {
			flags = append(flags, flag.word)
		}
	}
	weights := make([]string, 0, len(q.WeightTRES))
	for _, w := range q.WeightTRES {
		weights = append(weights, fmt.Sprintf("%s=%d", w.Name, w.Weight))
	}
	licenses := make([]string, 0, len(p.Licenses))
	for _, l := range p.Licenses {
		licenses = append(licenses, fmt.Sprintf("%s:%d", l.Name, l.Count))
	}
	values := [][2]string{
		{"AccountingStorageEnforce", cmp.Or(p.Accounting.words(), "none")},
		{"Licenses", cmp.Or(strings.Join(licenses, ","), "(null)")},
		{"PreemptExemptTime", clockOf(p.Preempt.ExemptTimeS)},
		{"PreemptMode", strings.ToUpper(preemptModeWord(cmp.Or(p.Preempt.Mode, sched.PreemptOff)))},
		{"PreemptType", []string{"preempt/none", "preempt/partition_prio", "preempt/qos"}[min(p.Preempt.Type, sched.PreemptByQOS)]},
		{"PriorityDecayHalfLife", clockOf(q.halfLifeS())},
		{"PriorityFavorSmall", map[bool]string{true: "Yes", false: "No"}[q.FavorSmall]},
		{"PriorityFlags", strings.Join(flags, ",")},
		{"PriorityMaxAge", clockOf(q.maxAgeS())},
		{"PriorityType", map[bool]string{true: "priority/multifactor", false: "priority/basic"}[q.weights() > 0]},
		{"PriorityUsageResetPeriod", q.UsageReset.String()},
		{"PriorityWeightAge", fmt.Sprint(q.WeightAge)},
		{"PriorityWeightAssoc", fmt.Sprint(q.WeightAssociation)},
		{"PriorityWeightFairShare", fmt.Sprint(q.WeightFairShare)},
		{"PriorityWeightJobSize", fmt.Sprint(q.WeightJobSize)},
		{"PriorityWeightPartition", fmt.Sprint(q.WeightPartition)},
		{"PriorityWeightQOS", fmt.Sprint(q.WeightQOS)},
		{"PriorityWeightTRES", cmp.Or(strings.Join(weights, ","), "(null)")},
		{"TopologyPlugin", map[bool]string{true: "topology/tree", false: "topology/none"}[len(p.Switches) > 0]},
	}
	entries := make([]*pb.ConfigEntry, len(values))
	for i, value := range values {
		entries[i] = &pb.ConfigEntry{Key: value[0], Value: value[1]}
	}
	return entries
}

// clockOf is a duration as Slurm writes it, [days-]hh:mm:ss.
func clockOf(seconds uint32) string {
	if seconds == sched.Unlimited {
		return "00:00:00" // as Slurm writes no decay
	}
	days, rest := seconds/86400, fmt.Sprintf("%02d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
	if days > 0 {
		return fmt.Sprintf("%d-%s", days, rest)
	}
	return rest
}
