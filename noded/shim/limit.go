package shim

import "time"

// limit is a time limit that stands still while the job does, as Slurm's does
// for suspended jobs. It may be changed at any time.
type limit struct {
	timer  *time.Timer
	length time.Duration // 0 = without end
	ran    time.Duration // until it stood last
	since  time.Time     // it runs; zero = it stands
}

// newLimit makes one that stands. 0 = without end.
func newLimit(length time.Duration) *limit {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &limit{timer: timer, length: length}
}

// set gives it another length, counted from the same beginning.
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

// run lets it go on. What is left counts, a moment at least.
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
