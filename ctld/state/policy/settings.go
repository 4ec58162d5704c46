package policy

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// unless is a number, or "" for the default.
func unless(usual, n uint32) string {
	if n == usual {
		return ""
	}
	return fmt.Sprint(n)
}

// Settings are the policy's settings about the order of jobs, under Slurm's
// keys (slurm.conf(5)), as scontrol shows them.
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
		{"GuestExemptTime", clockOf(p.Preempt.GuestExemptTimeS)},
		{"Licenses", cmp.Or(strings.Join(licenses, ","), "(null)")},
		{"Network", p.SiteNetwork().String()},
		{"PreemptExemptTime", clockOf(p.Preempt.ExemptTimeS)},
		{"PreemptMode", strings.ToUpper(preemptModeWord(cmp.Or(p.Preempt.Mode, sched.PreemptOff)))},
		{"PreemptType", []string{"preempt/none", "preempt/partition_prio", "preempt/qos"}[min(p.Preempt.Type, sched.PreemptByQOS)]},
		{"PriorityDecayHalfLife", clockOf(q.HalfLifeS())},
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
		{"PrivateData", cmp.Or(strings.Join(p.PrivateData, ","), "none")},
		{"PriorityWeightTRES", cmp.Or(strings.Join(weights, ","), "(null)")},
		{"SchedulerParameters", p.Scheduler.parameters()},
		{"SchedulerType", "sched/" + p.Scheduler.word()},
		{"SlurmctldParameters", p.Rate.String()},
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
