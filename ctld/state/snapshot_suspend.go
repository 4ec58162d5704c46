package state

import (
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// schedSuspension fills in whether a job that holds nodes may be suspended, and
// for a suspended job whether it may continue, and with what.
func (v *View) schedSuspension(job *Job, running *sched.Running, index *schedIndex) {
	run := job.Run
	running.Suspends = job.Phase == Running && run.Suspension == nil && !job.Configuring()
	if !job.Suspended() {
		return
	}
	running.Continues = !run.Suspension.Held
	for i := range run.Allocs {
		alloc := &run.Allocs[i]
		node, known := v.nodes.Get(alloc.Node)
		running.Continues = running.Continues && known && !node.NotResponding
		if alloc.Frozen {
			running.Back = append(running.Back, place.Alloc{Node: index.nodes[alloc.Node], CPUs: place.NewCPUSet(alloc.CPUs...)})
		}
	}
}

// PlanToContinue makes the command of a plan's suspended jobs that continue. The
// plan was made from a snapshot of this view.
func (v *View) PlanToContinue(plan *sched.Plan) ContinueJobs {
	var command ContinueJobs
	for _, id := range plan.Continues {
		if job, known := v.Job(uint32(id)); known && job.Suspended() {
			command.Orders = append(command.Orders, ContinueOrder{Job: job.ID, Epoch: job.Epoch, Number: job.Run.SuspendNumber})
		}
	}
	return command
}
