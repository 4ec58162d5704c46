package leader

import (
	"context"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/sched"
)

// continueJobs commits that suspended jobs go on, by a plan that was made from a
// view, and answers whether any does.
func (l *Leader) continueJobs(ctx context.Context, view *state.View, plan *sched.Plan) bool {
	some := false
	for chunk := range slices.Chunk(view.PlanToContinue(plan).Orders, state.MaxTargets) {
		result, ok := l.propose(ctx, state.ContinueJobs{Orders: chunk})
		if !ok {
			return some
		}
		for _, c := range result.Continued {
			if c.Dropped != "" {
				l.log.Debug("a suspended job does not go on yet", "job", c.Job, "epoch", c.Epoch, "reason", c.Dropped)
				continue
			}
			some = true
			l.log.Info("suspended job goes on", "job", c.Job, "epoch", c.Epoch)
		}
	}
	return some
}

// mayContinue says whether a pass may let a suspended job go on.
func mayContinue(snapshot *sched.Snapshot) bool {
	return slices.ContainsFunc(snapshot.Running, func(r sched.Running) bool { return r.Continues })
}
