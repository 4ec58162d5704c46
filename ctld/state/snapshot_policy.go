package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file fills in a snapshot's part about the order of jobs, as the policy
// has it.

// schedShares comes after the nodes and the accounts, and before the
// partitions.
func (v *View) schedShares(snapshot *sched.Snapshot, nodes map[string]place.NodeIndex) {
	p := v.policy
	snapshot.Priority = p.Priority.scheduled(snapshot.TRES)
	snapshot.Accounting = sched.AccountingPolicy{EnforceLimits: p.Accounting.limits(), Safe: p.Accounting.Safe}
	snapshot.Preemption = sched.PreemptionPolicy{
		Type: p.Preempt.Type, Mode: cmp.Or(p.Preempt.Mode, sched.PreemptOff), ExemptTimeS: p.Preempt.ExemptTimeS,
		GuestExemptTimeS: p.Preempt.GuestExemptTimeS,
	}
	snapshot.Backfill = p.Scheduler.scheduled()
	for _, license := range p.Licenses {
		snapshot.Licenses = append(snapshot.Licenses, sched.License{Name: license.Name, Total: license.Count})
	}
	for i := range p.topology {
		from := &p.topology[i]
		to := place.Switch{Name: from.name, Level: from.level}
		for _, name := range from.nodes {
			if at, known := nodes[name]; known {
				to.Nodes = append(to.Nodes, at)
			}
		}
		snapshot.Switches = append(snapshot.Switches, to)
	}
}

func (p *PriorityPolicy) scheduled(tres []string) sched.PriorityPolicy {
	out := sched.PriorityPolicy{
		WeightAge: p.WeightAge, WeightAssociation: p.WeightAssociation, WeightFairShare: p.WeightFairShare,
		WeightJobSize: p.WeightJobSize, WeightPartition: p.WeightPartition, WeightQOS: p.WeightQOS,
		MaxAgeS: p.maxAgeS(), FavorSmall: p.FavorSmall, SmallRelativeToTime: p.SmallRelativeToTime, MaxTRES: p.MaxTRES,
	}
	if len(p.WeightTRES) > 0 {
		out.WeightTRES = make([]uint32, len(tres))
	}
	for _, w := range p.WeightTRES {
		if at, known := slices.BinarySearch(tres, w.Name); known {
			out.WeightTRES[at] = uint32(w.Weight)
		}
	}
	return out
}

// schedShares fills in what the partition says; the snapshot has its TRES
// already.
func (p *Partition) schedShares(out *sched.Partition, snapshot *sched.Snapshot) {
	out.PriorityJobFactor = p.jobFactor()
	out.Preempt, out.GraceTimeS, out.FillsHoles = p.PreemptMode, p.GraceTimeS, p.BfCheckpoint
	if len(p.BillingWeights) > 0 {
		out.BillingWeights = make([]int64, len(snapshot.TRES))
	}
	for _, w := range p.BillingWeights {
		if at, known := slices.BinarySearch(snapshot.TRES, w.Name); known {
			out.BillingWeights[at] = w.Weight
		}
	}
}
