package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// preemption changes a policy.
func (w *walker) preemption(site *policy.Policy) {
	site.Preempt = policy.Preempt{Type: sched.PreemptType(w.Intn(3)), Mode: sched.PreemptRequeue}
	if site.Preempt.Type == sched.PreemptNone {
		site.Preempt.Mode = sched.PreemptUnset
	}
	for i := range site.Partitions {
		site.Partitions[i].PreemptMode, site.Partitions[i].PriorityTier = policy.PreemptMode(w.Intn(6)), uint32(w.Intn(3))
		if !w.frozen && site.Partitions[i].PreemptMode == sched.PreemptSuspend {
			site.Partitions[i].PreemptMode = sched.PreemptOff
		}
	}
}

// preempt makes orders, many of which make no sense.
func (w *walker) preempt(v *View) Command {
	var command PreemptJobs
	for range 1 + w.Intn(3) {
		victim, _ := w.activeJob(v)
		order := PreemptOrder{
			Suspend: w.frozen && w.chance(50),
			Job:     victim.ID, Epoch: victim.Epoch, For: w.someJob(v), Cancel: w.chance(30), GraceS: uint32(w.Intn(3)) * 60,
			LostGPUMS: w.Int63n(1<<40) - 5, HasNext: w.chance(50), NextGPUMS: w.Int63n(1 << 40),
		}
		for _, waiting := range inPhases(v, Waiting) {
			for _, running := range inPhases(v, Running) {
				if v.mayPreempt(waiting, running) && w.chance(50) {
					order.Job, order.Epoch, order.For = running.ID, running.Epoch, waiting.ID
				}
			}
		}
		if w.chance(10) {
			order.Epoch--
		}
		command.Preemptions = append(command.Preemptions, order)
	}
	return command
}

func goers(results []PreemptResult) (count int) {
	for _, r := range results {
		if r.Dropped == "" {
			count++
		}
	}
	return count
}
