package policy

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
)

// This file bridges the policy to the scheduler's view of it.

// Scheduled is the priority as the scheduler has it; tres are the names of a snapshot's TRES.
func (p *Priority) Scheduled(tres []string) sched.PriorityPolicy {
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

// FillSched fills in what the partition says; the snapshot has its TRES
// already.
func (p *Partition) FillSched(out *sched.Partition, snapshot *sched.Snapshot) {
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
