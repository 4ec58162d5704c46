package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// This file measures when the machine of the test stands still, and sums up what owners were
// promised.

const (
	// lookAtClock is how often it is looked at the clock, and stallFrom how much later than
	// that counts as standing still.
	lookAtClock = 5 * time.Millisecond
	stallFrom   = 20 * time.Millisecond
	// maxStalls bounds what is remembered.
	maxStalls = 1 << 20
)

// meter notes when the machine lets nobody run.
type meter struct {
	done   chan struct{}
	stalls []history.Stall
}

// startMeter measures until ctx ends, on a thread of its own: what Go's scheduler has to do
// must not count.
func startMeter(ctx context.Context) *meter {
	m := &meter{done: make(chan struct{})}
	go func() {
		defer close(m.done)
		runtime.LockOSThread()
		pause := unix.NsecToTimespec(int64(lookAtClock))
		for before := now(); ctx.Err() == nil && len(m.stalls) < maxStalls; {
			_ = unix.Nanosleep(&pause, nil)
			after := now()
			if due := before + lookAtClock.Microseconds(); after-due > stallFrom.Microseconds() {
				m.stalls = append(m.stalls, history.Stall{From: due, To: after})
			}
			before = after
		}
	}()
	return m
}

// into waits for the end of the measurement.
func (m *meter) into(h *history.History) {
	<-m.done
	h.Stalls = m.stalls
}

// promisesText sums up what owners were promised, what came of it, and for how long the
// machine stood still meanwhile.
func promisesText(h *history.History) (lines []string) {
	all := h.Promises()
	guests, kept, parked, ended, heard, took := 0, 0, 0, 0, 0, []int64{}
	var missed []string
	for _, p := range all {
		r := p.Reclaim
		parked, ended = parked+r.Parked, ended+r.Ended
		if r.Free > 0 && r.Parked > 0 {
			took = append(took, r.Free)
		}
		if r.Parked+r.Ended > 0 {
			guests++
		}
		switch {
		case p.Kept && p.Heard > 0:
			heard++
			fallthrough
		case p.Kept:
			kept++
		default:
			missed = append(missed, fmt.Sprintf("missed: %s within %d ms, %d ms late: %s; %s", r.Node, (r.Deadline-r.At)/1000, p.Late/1000, p.Text, p.Why))
		}
	}
	text := fmt.Sprintf("reclaims: %d typed, %d promises heard, %d of nodes with guests, %d kept (%d of them heard of after the deadline), %d missed; %d guests parked, %d ended",
		len(h.Reclaims), len(all), guests, kept, heard, len(missed), parked, ended)
	if slices.Sort(took); len(took) > 0 {
		text += fmt.Sprintf("; with guests parked the hardware was free after %d ms at the median, %d ms at most", took[len(took)/2]/1000, took[len(took)-1]/1000)
	}
	stood, longest := int64(0), int64(0)
	for _, s := range h.Stalls {
		stood, longest = stood+s.To-s.From, max(longest, s.To-s.From)
	}
	lines = append(lines, text)
	lines = append(lines, missed...)
	return append(lines, fmt.Sprintf("the machine: a thread that only looks at the clock was %d times more than %d ms late, %.1f s in all, %d ms at most",
		len(h.Stalls), stallFrom.Milliseconds(), float64(stood)/1e6, longest/1000))
}
