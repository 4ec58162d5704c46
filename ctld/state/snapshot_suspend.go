package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// schedSuspension fills in whether a job that holds nodes may be suspended, and
// for a suspended job whether it may continue, and with what.
func (v *View) schedSuspension(job *Job, running *sched.Running, snapshot *sched.Snapshot, index *schedIndex) {
	run := job.Run
	running.Suspends = job.Phase == Running && run.Suspension == nil && !job.Configuring()
	if !job.Suspended() {
		running.ContinuedMS = run.TurnMS
		running.ParkBeyond = v.parksBeyond(job)
		running.Parks = running.Saves || !slices.ContainsFunc(run.Allocs, func(alloc Alloc) bool { return len(alloc.Devices) > 0 })
		return
	}
	running.Continues = !run.Suspension.Held
	for i := range run.Allocs {
		alloc := &run.Allocs[i]
		node, known := v.nodes.Get(alloc.Node)
		running.Continues = running.Continues && known && !node.NotResponding && !v.keptFrom(job, node)
		if alloc.ParkByMS != 0 && !alloc.Parked {
			running.Parking = append(running.Parking, index.nodes[alloc.Node])
		}
		if !alloc.Frozen {
			continue
		}
		running.Continues = running.Continues && len(node.Strays) == 0 // what they hold looks free
		back := place.Alloc{Node: index.nodes[alloc.Node], CPUs: place.NewCPUSet(alloc.CPUs...)}
		if alloc.Parked {
			running.Parked = append(running.Parked, back.Node)
			back.Devices = schedGrants(alloc, snapshot.Nodes[back.Node].Devices)
			running.Continues = running.Continues && len(back.Devices) == len(alloc.Devices) // or its node has lost one
		}
		running.Back = append(running.Back, back)
		await(&snapshot.Nodes[back.Node], &back)
	}
}

// await notes that a suspended job cannot continue without what it had there, so that
// others get something else as long as there is something else.
func await(node *place.Node, back *place.Alloc) {
	node.AwaitedCPUs = node.AwaitedCPUs.Union(back.CPUs)
	node.Devices = slices.Clone(node.Devices) // which other snapshots share
	for _, grant := range back.Devices {
		node.Devices[grant.Device].Awaited = true
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
