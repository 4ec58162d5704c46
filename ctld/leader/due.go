package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// maxEndLate bounds the commands of one pass that end late jobs.
const maxEndLate = 16

// NextPass is when the next pass is due even if nothing happens, by the wall
// clock, as the last pass found: a job's begin time comes, or its deadline
// passes. The zero time when there is no such job.
func (l *Leader) NextPass() time.Time {
	ms := l.nextPass.Load()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms + 1) // what ends at a millisecond is over after it
}

// earlier is the lesser of two times that may be absent, 0.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// earliest is the least of times that may be absent, 0.
func earliest(times ...int64) (first int64) {
	for _, ms := range times {
		first = earlier(first, ms)
	}
	return first
}

// at fires at a time; never at the zero time.
func at(due time.Time) (fires <-chan time.Time, stop func()) {
	if due.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(due))
	return timer.C, func() { timer.Stop() }
}

// endLate ends the waiting jobs that can no longer meet their deadline, and
// returns the state after that.
func (l *Leader) endLate(ctx context.Context, view *state.View, now time.Time) *state.View {
	for range maxEndLate {
		if late := view.LatestStart(); late == 0 || late >= now.UnixMilli() {
			break
		}
		result, ok := l.propose(ctx, state.EndLateJobs{})
		if !ok || len(result.ChangedJobs) == 0 {
			break
		}
		view = l.cluster.View()
	}
	return view
}
