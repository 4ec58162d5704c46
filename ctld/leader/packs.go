package leader

import (
	"context"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// packAfter is how long a guest is parked before it is packed. An owner who is done
// within that time, or has reclaimed the wrong node, gives it back for nothing; and a
// guest that waits longer loses more than the save and the restore cost.
const packAfter = 10 * time.Second

// packParked orders saves of the jobs that have been parked for long enough, so that
// they go on elsewhere.
func (l *Leader) packParked(ctx context.Context, view *state.View, now time.Time) {
	var due []state.Target
	for _, job := range view.ParkedJobs() {
		if l.packsNow(view, job, now) {
			due = append(due, state.Target{Job: job.ID})
		}
	}
	for chunk := range slices.Chunk(due, bounds.MaxTargets) {
		if _, ok := l.propose(ctx, state.SaveJobs{Targets: chunk, Privileged: true, Purpose: state.SavePack}); ok {
			l.log.Info("parked jobs are saved to go on elsewhere", "count", len(chunk), "first_job", chunk[0].Job)
		}
	}
}

// packsNow reports whether a parked job is to be saved now. After a save that failed it
// is left alone for as long as it had been parked then: twice as long each time, up to
// retrySave.
func (l *Leader) packsNow(view *state.View, job *state.Job, now time.Time) bool {
	since := time.UnixMilli(view.ParkedSinceMS(job))
	due := since.Add(packAfter)
	if view.MustLeave(job) {
		due = since // its node is about to be empty, or switched off
	}
	if saved := job.Saved; saved != nil && saved.Failed != "" {
		if failed := time.UnixMilli(saved.FailedMS); failed.After(since) {
			due = failed.Add(min(max(failed.Sub(since), packAfter), retrySave))
		}
	}
	return !now.Before(due) && view.MayPack(job) && l.savable(job)
}
