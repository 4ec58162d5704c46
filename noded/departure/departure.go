// Package departure decides when a node may go whose machine is about to be switched off,
// or to sleep.
//
// Contract: it has no clock, does no I/O and starts nothing. Times are boot times, which
// nobody sets. While the node leaves it says so to each controller, which has its jobs
// moved away; it may go when no allocation is left, when its time is over, or when no
// controller has been there for a while: then nobody moves anything.
package departure

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// mostMargin is how long before its end the controllers are told that it is, at most:
	// what ends at the deadline is cleaned up, and that is told.
	mostMargin = 5 * time.Second
	// aloneFor is how long a node waits for a controller.
	aloneFor = 15 * time.Second
)

// Departure is whether the node leaves. The zero Departure does not.
type Departure struct {
	why      string
	deadline time.Duration // for what is on the node
	end      time.Duration // of the machine
	heard    time.Duration // when a controller was there last
}

// Begin notes that the machine goes, and how long it waits for what is on it. It reports
// whether that is news. What goes already does not go later.
func (d *Departure) Begin(why string, within, now time.Duration) bool {
	within = max(within, 0)
	end := now + within
	if d.why != "" && end >= d.end {
		return false
	}
	if d.why == "" {
		d.heard = now
	}
	d.why, d.end, d.deadline = why, end, end-min(within/5, mostMargin)
	return true
}

// Stay notes that the machine does not go after all, or is back. It reports whether that
// is news.
func (d *Departure) Stay() bool {
	leaves := d.why != ""
	*d = Departure{}
	return leaves
}

// Leaves reports whether the node leaves.
func (d *Departure) Leaves() bool { return d.why != "" }

// Tell is what a controller has to know; nil = the node stays.
func (d *Departure) Tell(now time.Duration) *pb.NodeLeaves {
	if d.why == "" {
		return nil
	}
	return &pb.NodeLeaves{Why: d.why, WithinMs: max((d.deadline - now).Milliseconds(), 1)}
}

// MayGo reports whether nothing keeps the machine any longer. allocs is how many
// allocations the node has, and connected whether a controller is there.
func (d *Departure) MayGo(allocs int, connected bool, now time.Duration) bool {
	if connected {
		d.heard = now
	}
	return d.why == "" || allocs == 0 || now >= d.end || now-d.heard > aloneFor
}
