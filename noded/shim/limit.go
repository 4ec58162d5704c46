package shim

import "time"

// limit is a time limit that stands still while the job does, as Slurm's does
// for suspended jobs.
type limit struct {
	timer *time.Timer
	left  time.Duration // when it ran last; 0 = without end
	since time.Time     // it runs; zero = it stands
}

// newLimit makes one that stands. 0 = without end.
func newLimit(length time.Duration) *limit {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &limit{timer: timer, left: length}
}

// run lets it go on.
func (l *limit) run() {
	if l.left > 0 && l.since.IsZero() {
		l.since = time.Now()
		l.timer.Reset(l.left)
	}
}

// pause stops it. What is left counts on later, a moment at least.
func (l *limit) pause() {
	if !l.since.IsZero() {
		l.timer.Stop()
		l.left = max(l.left-time.Since(l.since), time.Nanosecond)
		l.since = time.Time{}
	}
}
