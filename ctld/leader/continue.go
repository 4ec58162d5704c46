package leader

import (
	"context"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/sched"
)

// continueJobs commits that suspended jobs continue, by a plan that was made
// from a view, and reports whether any does.
func (l *Leader) continueJobs(ctx context.Context, view *state.View, plan *sched.Plan) bool {
	some := false
	for chunk := range slices.Chunk(view.PlanToContinue(plan).Orders, bounds.MaxTargets) {
		result, ok := l.propose(ctx, state.ContinueJobs{Orders: chunk})
		if !ok {
			return some
		}
		for _, c := range result.Continued {
			if c.Dropped != "" {
				l.log.Debug("a suspended job does not continue yet", "job", c.Job, "epoch", c.Epoch, "reason", c.Dropped)
				continue
			}
			some = true
			l.log.Info("suspended job continues", "job", c.Job, "epoch", c.Epoch)
		}
	}
	return some
}

// mayContinue reports whether a pass may let a suspended job continue.
func mayContinue(snapshot *sched.Snapshot) bool {
	return slices.ContainsFunc(snapshot.Running, func(r sched.Running) bool { return r.Continues })
}
