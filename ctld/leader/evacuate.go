package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// evacuateAgain is how long a job on a node that is being emptied is left alone after a
// move or a save of it failed.
const evacuateAgain = 30 * time.Second

// evacuate has the jobs leave that are on nodes which are to be empty: they move, and
// what finds no room elsewhere is saved, to wait with its image off the node.
func (l *Leader) evacuate(ctx context.Context, view *state.View, now time.Time) {
	if at := view.EvacuationsEndMS(); at != 0 && at <= now.UnixMilli() {
		if _, ok := l.propose(ctx, state.EndEvacuations{}); !ok {
			return
		}
		view = l.cluster.View()
	}
	var due []state.Target
	for job := range view.Evacuated {
		if len(due) < bounds.MaxTargets && l.leavesNow(view, job, now) {
			due = append(due, state.Target{Job: job.ID})
		}
	}
	if len(due) == 0 {
		return
	}
	moved, ok := l.propose(ctx, state.SaveJobs{Targets: due, Privileged: true, Purpose: state.SaveMove})
	if !ok {
		return
	}
	var stay []state.Target
	for i := range moved.Jobs {
		if moved.Jobs[i].Code > state.AlreadyDone {
			stay = append(stay, state.Target{Job: moved.Jobs[i].Job})
		}
	}
	l.log.Info("jobs leave nodes that are being emptied", "moving", len(due)-len(stay), "without_room", len(stay), "first_job", due[0].Job)
	if len(stay) > 0 {
		l.propose(ctx, state.SaveJobs{Targets: stay, Privileged: true, Purpose: state.SaveEvacuation})
	}
}

// Hurry has the jobs of a node that has little time looked at now.
func (l *Leader) Hurry() { wake(l.asksWake) }

// leavesNow reports whether a job is to be moved or saved now, to leave its node.
func (l *Leader) leavesNow(view *state.View, job *state.Job, now time.Time) bool {
	if job.Moving() != nil || job.Saving() != nil || !view.MaySave(job) || !l.savable(job) {
		return false
	}
	if job.Saved == nil {
		return true
	}
	failed, again := job.Saved.FailedMS, evacuateAgain
	if images := job.Images(); len(images) > 0 && images[0].Number == job.Saved.FailedNumber {
		again = retrySave // it stood for nothing
	}
	if move := job.Saved.MoveFailed; move != nil {
		failed = max(failed, move.AtMS)
	}
	return !now.Before(time.UnixMilli(failed).Add(again))
}
