package shim

import "time"

// limit is a time limit that stops while the job is frozen, as Slurm's does for
// suspended jobs. It may be changed at any time.
type limit struct {
	timer  *time.Timer
	length time.Duration // 0 = without end
	ran    time.Duration // until it last stopped
	since  time.Time     // it runs; zero = it is stopped
}

// newLimit makes one that is stopped. 0 = without end.
func newLimit(length time.Duration) *limit {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &limit{timer: timer, length: length}
}

// set changes its length, counted from the same beginning.
func (l *limit) set(length time.Duration) {
	if length == l.length {
		return
	}
	l.length = length
	if !l.since.IsZero() {
		l.pause()
		l.run()
	}
}

// run starts it with the time that is left, at least a moment.
func (l *limit) run() {
	if !l.since.IsZero() {
		return
	}
	l.since = time.Now()
	if l.length > 0 {
		l.timer.Reset(max(l.length-l.ran, time.Nanosecond))
	}
}

// pause stops it.
func (l *limit) pause() {
	if !l.since.IsZero() {
		l.timer.Stop()
		l.ran += time.Since(l.since)
		l.since = time.Time{}
	}
}
