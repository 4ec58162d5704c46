package leader

import (
	"context"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/sched"
)

// preempt commits the preemptions of a plan that was made from a view, and
// reports whether any took effect.
func (l *Leader) preempt(ctx context.Context, view *state.View, snapshot *sched.Snapshot, plan *sched.Plan) bool {
	gone := map[sched.JobID]bool{}
	for chunk := range slices.Chunk(view.PlanToPreemptions(plan).Preemptions, bounds.MaxTargets) {
		result, ok := l.propose(ctx, state.PreemptJobs{Preemptions: chunk})
		if !ok {
			break
		}
		for _, p := range result.Preemptions {
			if p.Dropped != "" {
				l.log.Debug("a planned preemption is dropped", "job", p.Job, "for", p.For, "reason", p.Dropped)
				continue
			}
			gone[sched.JobID(p.Job)] = true
		}
	}
	for at := 0; at < len(plan.Preemptions); {
		choice := plan.Preemptions[at].Choice // one for all its victims, which follow each other
		var victims []sched.JobID
		for ; at < len(plan.Preemptions) && plan.Preemptions[at].Choice == choice; at++ {
			if victim := plan.Preemptions[at].Victim; gone[victim] {
				victims = append(victims, victim)
			}
		}
		if len(victims) > 0 {
			l.logChoice(snapshot, choice, victims)
		}
	}
	return len(gone) > 0
}

// shownOf bounds the jobs, and the nodes, that one line names.
const shownOf = 20

// logChoice logs what was chosen for a job, with the figures. For victims
// without GPUs, GPU-milliseconds are CPU-milliseconds.
func (l *Leader) logChoice(snapshot *sched.Snapshot, choice *sched.Choice, victims []sched.JobID) {
	var nodes []string
	for _, node := range choice.Nodes[:min(len(choice.Nodes), shownOf)] {
		nodes = append(nodes, snapshot.Nodes[node].Name)
	}
	figures := []any{"job", uint32(choice.For), "victims", shown(victims), "count", len(victims), "nodes", nodes, "cost_gpu_seconds", float64(choice.CostGPUMS) / 1000}
	if choice.NextBest != nil {
		figures = append(figures, "next_best", shown(choice.NextBest), "next_cost_gpu_seconds", float64(choice.NextCostMS)/1000)
	}
	l.log.Info("jobs are preempted to make room", figures...)
}

// shown is the first few of a list of jobs, in the form of other log lines.
func shown(ids []sched.JobID) []uint32 {
	var few []uint32
	for _, id := range ids[:min(len(ids), shownOf)] {
		few = append(few, uint32(id))
	}
	return few
}
