package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file keeps jobs from nodes that are not for them at some times: that are reserved,
// taken back by their owner, or probably will be. Such times are intervals like all
// others, but each shape has its own. What may not start now is left out of its request,
// and what is planned begins in what they leave.

// Closed is a time in which the jobs of a shape may not have a node.
type Closed struct {
	Node   place.NodeIndex
	FromMS int64
	ToMS   int64 // profile.Forever = it has no end; FromMS = a moment that they may not run through
	// Starts: they may not start in it, but may run into it, as guests that leave then.
	Starts bool
	Why    ClosedBy
}

// ClosedBy is why.
type ClosedBy uint8

// Why a node is closed.
const (
	ClosedByReservation ClosedBy = iota
	ClosedByOwner                // who has taken it back, or does so at that hour
	ClosedByHabit                // its owner's
)

// barred is when no job of the shape begins for it: from one time on and before another.
func (c *Closed) barred(shape *Shape) profile.Interval {
	if c.Starts {
		return profile.Interval{From: c.FromMS, To: c.ToMS}
	}
	return profile.Interval{From: before(c.FromMS, shape.longestMS()), To: c.ToMS}
}

// longestMS is how long a job of the shape may run, which may be longer than it is planned
// for.
func (s *Shape) longestMS() int64 {
	if s.TimeLimitS == Unlimited {
		return profile.Forever
	}
	return int64(s.TimeLimitS) * 1000
}

// closedOn are the times in which a node is closed.
func (s *Shape) closedOn(node place.NodeIndex) []Closed {
	at, _ := slices.BinarySearchFunc(s.Closed, node, func(c Closed, node place.NodeIndex) int { return cmp.Compare(c.Node, node) })
	end := at
	for end < len(s.Closed) && s.Closed[end].Node == node {
		end++
	}
	return s.Closed[at:end]
}

// closedAt is what keeps a job of the shape from beginning on a node at a time; nil =
// nothing does.
func (s *Shape) closedAt(node place.NodeIndex, atMS int64) *Closed {
	closed := s.closedOn(node)
	for i := range closed {
		if barred := closed[i].barred(s); barred.From <= atMS && atMS < barred.To {
			return &closed[i]
		}
	}
	return nil
}

// openNow is the shape without the nodes that are closed to it now.
func (s *Snapshot) openNow(shape *Shape) *Shape {
	var names []string
	for i := range shape.Closed {
		node := shape.Closed[i].Node
		if (i == 0 || node != shape.Closed[i-1].Node) && shape.closedAt(node, s.NowMS) != nil {
			names = append(names, s.Nodes[node].Name)
		}
	}
	if names == nil {
		return shape
	}
	now := *shape
	now.Request.ExcludedNodes = slices.Concat(names, shape.Request.ExcludedNodes)
	slices.Sort(now.Request.ExcludedNodes)
	now.Request.ExcludedNodes = slices.Compact(now.Request.ExcludedNodes)
	return &now
}

// begins leaves of the times at which there is room on a node those at which a job of the
// shape may begin there, ascending.
func (s *Shape) begins(node place.NodeIndex, holes []profile.Interval) []profile.Interval {
	closed := s.closedOn(node)
	for i := range closed {
		holes = leave(holes, closed[i].barred(s))
	}
	return holes
}

// leave is holes, ascending, less an interval. It may change them.
func leave(holes []profile.Interval, barred profile.Interval) []profile.Interval {
	if barred.From >= barred.To {
		return holes
	}
	for at := 0; at < len(holes); at++ {
		hole := holes[at]
		if hole.To <= barred.From || barred.To <= hole.From {
			continue
		}
		var left []profile.Interval
		if hole.From < barred.From {
			left = append(left, profile.Interval{From: hole.From, To: barred.From})
		}
		if barred.To < hole.To {
			left = append(left, profile.Interval{From: barred.To, To: hole.To})
		}
		holes = slices.Replace(holes, at, at+1, left...)
		at += len(left) - 1
	}
	return holes
}

// opensLater reports whether a job could run in a partition, all else being idle, but for
// the nodes that are closed to it now.
func (p *pass) opensLater(t *trial, index int) bool {
	if t.ahead == t.shape || !p.Backfill.On {
		return false
	}
	p.feasibility.decideOn(t, t.shape, index)
	return t.verdict.code != ReasonNone && p.feasibility.verdictOf(t.ahead, index).code == ReasonNone
}

// waitsForTime reports whether a start is planned on nodes that are closed at some time, so
// that it may come without anything that happens before.
func (p *pass) waitsForTime() bool {
	return slices.ContainsFunc(p.plans, func(of plan) bool { return len(of.shape.Closed) > 0 })
}
