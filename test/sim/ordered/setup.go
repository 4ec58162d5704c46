package ordered

import (
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/sched"
)

// modes are what becomes of jobs that make room.
var modes = []sched.PreemptMode{sched.PreemptRequeue, sched.PreemptCheckpoint, sched.PreemptCheckpoint, sched.PreemptSuspend}

// setUp makes the accounts, and then applies the policy that the cluster works
// under.
func (w *World) setUp() {
	site := *policy.Default()
	main := site.Partitions[0]
	guest := main
	guest.Name, guest.Default, guest.LeaseAction = "guest", false, "fence"
	switch w.rng.IntN(4) {
	case 0: // jobs in main preempt guests
		main.PriorityTier, guest.GraceTimeS = 2, uint32(w.rng.IntN(3))*30
		site.Preempt = policy.Preempt{Type: sched.PreemptByPartition, Mode: pick(w.rng, modes)}
	case 1: // urgent ones preempt the others
		site.Preempt = policy.Preempt{Type: sched.PreemptByQOS, Mode: pick(w.rng, modes)}
	}
	if w.Options.Holes {
		main.BfCheckpoint, guest.BfCheckpoint, site.Scheduler.PartJobs = true, true, 1
	}
	site.Partitions = []policy.Partition{guest, main}
	site.LeaseS, site.LeaseMarginS, site.MinJobAgeS = uint32(w.lease.Seconds()), uint32(w.margin.Seconds()), 3600
	site.Licenses = []policy.License{{Name: license, Count: w.rules.licenses}}
	site.Accounting = policy.Accounting{EnforceAssociations: true, EnforceQOS: true, EnforceLimits: w.rules.enforced}
	site.RequeueExit = []ranges.Range{{First: 1, Last: 10, Step: 1}}
	site.RequeueExitHold = []ranges.Range{{First: 11, Last: 14, Step: 1}}
	if w.lent {
		site.Owners = owners()
	}
	w.administer("make the accounts", w.accounts(), func() {
		w.administer("apply the policy", state.ApplyPolicy{Policy: site}, func() {
			if w.lent {
				w.after(time.Minute, w.lend) // once the nodes are there
			}
		})
	})
}
