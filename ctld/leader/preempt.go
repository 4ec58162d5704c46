package leader

import (
	"context"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/sched"
)

// preempt commits the preemptions of a plan that was made from a view, and
// answers whether any was carried out.
func (l *Leader) preempt(ctx context.Context, view *state.View, snapshot *sched.Snapshot, plan *sched.Plan) bool {
	gone := map[sched.JobID][]uint32{} // victims, by whom they made room for
	for chunk := range slices.Chunk(view.PlanToPreemptions(plan).Preemptions, state.MaxTargets) {
		result, ok := l.propose(ctx, state.PreemptJobs{Preemptions: chunk})
		if !ok {
			break
		}
		for _, p := range result.Preemptions {
			if p.Dropped != "" {
				l.log.Debug("a planned preemption is dropped", "job", p.Job, "for", p.For, "reason", p.Dropped)
				continue
			}
			gone[sched.JobID(p.For)] = append(gone[sched.JobID(p.For)], p.Job)
		}
	}
	var told *sched.Choice
	for i := range plan.Preemptions {
		choice := plan.Preemptions[i].Choice
		if victims := gone[choice.For]; choice != told && len(victims) > 0 {
			l.logChoice(snapshot, choice, victims)
		}
		told = choice
	}
	return len(gone) > 0
}

// shownOf bounds the jobs, and the nodes, that one line names.
const shownOf = 20

// logChoice says what was chosen for a job, with the figures. GPU-milliseconds
// are CPU-milliseconds for victims without GPUs.
func (l *Leader) logChoice(snapshot *sched.Snapshot, choice *sched.Choice, victims []uint32) {
	var nodes []string
	for _, node := range choice.Nodes[:min(len(choice.Nodes), shownOf)] {
		nodes = append(nodes, snapshot.Nodes[node].Name)
	}
	figures := []any{"job", uint32(choice.For), "victims", victims[:min(len(victims), shownOf)], "count", len(victims), "nodes", nodes, "cost_gpu_seconds", float64(choice.CostGPUMS) / 1000}
	if choice.NextBest != nil {
		figures = append(figures, "next_best", choice.NextBest[:min(len(choice.NextBest), shownOf)], "next_cost_gpu_seconds", float64(choice.NextCostMS)/1000)
	}
	l.log.Info("jobs are preempted to make room", figures...)
}
