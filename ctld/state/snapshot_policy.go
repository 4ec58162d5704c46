package state

import (
	"cmp"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file fills in a snapshot's part about the order of jobs, as the policy
// has it.

// FillSched comes after the nodes and the accounts, and before the
// partitions.
func (v *View) schedShares(snapshot *sched.Snapshot, nodes map[string]place.NodeIndex) {
	p := v.policy
	snapshot.Priority = p.Priority.Scheduled(snapshot.TRES)
	snapshot.Accounting = sched.AccountingPolicy{EnforceLimits: p.Accounting.EnforcesLimits(), Safe: p.Accounting.Safe}
	snapshot.Preemption = sched.PreemptionPolicy{
		Type: p.Preempt.Type, Mode: cmp.Or(p.Preempt.Mode, sched.PreemptOff), ExemptTimeS: p.Preempt.ExemptTimeS,
		GuestExemptTimeS: p.Preempt.GuestExemptTimeS,
	}
	snapshot.Backfill = p.Scheduler.Scheduled()
	for _, license := range p.Licenses {
		snapshot.Licenses = append(snapshot.Licenses, sched.License{Name: license.Name, Total: license.Count})
	}
	switches := p.Topology()
	for i := range switches {
		from := &switches[i]
		to := place.Switch{Name: from.Name, Level: from.Level}
		for _, name := range from.Nodes {
			if at, known := nodes[name]; known {
				to.Nodes = append(to.Nodes, at)
			}
		}
		snapshot.Switches = append(snapshot.Switches, to)
	}
}
