package sched

import (
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file gives jobs that may run with less than their time limit (sbatch(1),
// --time-min) as much of it as lets them start soonest. Such a job is tried with its whole
// limit first. Where that does not fit it is tried with the least, and then gets as much as
// there is room for: until what is planned there begins, or the nodes are closed.
//
// For all else the job asks for the least: what keeps it from starting, and what it waits
// for, is what is in the way of its shortest run.

// shortens reports whether jobs of the shape may start with less than their limit.
func (s *Shape) shortens() bool { return s.TimeMinS != 0 && s.TimeMinS < s.TimeLimitS }

// leastS is the least limit with which jobs of the shape may start.
func (s *Shape) leastS() uint32 {
	if s.shortens() {
		return s.TimeMinS
	}
	return s.TimeLimitS
}

// within is the shape with another time limit.
func (s *Shape) within(limitS uint32) *Shape {
	within := *s
	within.TimeLimitS, within.PlannedS = limitS, min(s.PlannedS, limitS)
	return &within
}

// tried is what is known of a shape in a partition when the pass begins.
func (s *Snapshot) tried(shape *Shape, partition int) trial {
	if !shape.shortens() {
		return s.triedWith(shape, partition)
	}
	t := s.triedWith(shape.within(shape.TimeMinS), partition)
	if longest := min(shape.TimeLimitS, s.Partitions[partition].MaxTimeS); longest > shape.TimeMinS {
		whole := s.triedWith(shape.within(longest), partition)
		t.whole = &whole
	}
	return t
}

func (s *Snapshot) triedWith(shape *Shape, partition int) trial {
	of := &s.Partitions[partition]
	t := trial{ahead: of.shaped(shape)}
	if t.shape = t.ahead; len(shape.Closed) > 0 {
		if now := s.openNow(shape); now != shape {
			t.shape = of.shaped(now)
		}
	}
	return t
}

// placeNow finds nodes on which a job starts now, and with which shape.
func (p *pass) placeNow(e entry) (place.Placement, *Shape, bool) {
	shape, index, t := p.at(e)
	if placement, fits := p.placeWhole(e, t.whole, index); fits {
		return placement, t.whole.shape, true
	}
	placement, fits := p.fitNow(e, index, shape, shape.terms(true))
	if fits && t.whole != nil {
		shape = p.lengthened(e, &placement, p.NowMS, shape, t.whole.shape.TimeLimitS)
	}
	return placement, shape, fits
}

// placeWhole finds nodes on which a job that may be shortened runs with its whole limit.
func (p *pass) placeWhole(e entry, whole *trial, index int) (place.Placement, bool) {
	if whole == nil || whole.failed && whole.lifts == p.lifts {
		return place.Placement{}, false
	}
	span := whole.shape.terms(true)
	if p.future != nil && !p.future.licensed(&p.Waiting[e.job], p.NowMS, span) {
		return place.Placement{}, false
	}
	placement, fits := p.fitNow(e, index, whole.shape, span)
	if !fits {
		whole.failed, whole.lifts = true, p.lifts
	}
	return placement, fits
}

// lengthened is a shape, which fits on some nodes from a time on, with the longest limit
// with which it does, in whole minutes; at most this one.
func (p *pass) lengthened(e entry, placement *place.Placement, fromMS int64, shape *Shape, mostS uint32) *Shape {
	until := profile.Forever
	if p.future != nil {
		until = p.neededMS(placement, shape.Request.Exclusive, p.Waiting[e.job].Licenses, fromMS, shape.terms(true))
	}
	for i := range placement.Allocs {
		for _, closed := range shape.closedOn(placement.Allocs[i].Node) {
			if !closed.Starts && closed.FromMS > fromMS {
				until = min(until, closed.FromMS)
			}
		}
	}
	if until != profile.Forever {
		mostS = uint32(min((until-fromMS)/60_000*60, int64(mostS)))
	}
	if mostS <= shape.TimeLimitS {
		return shape
	}
	return shape.within(mostS)
}

// earliestOf is when and where a job can start first in a partition, and with which shape:
// with its whole limit, unless it starts sooner with less.
func (p *pass) earliestOf(e entry, sure bool) (at int64, placement place.Placement, shape *Shape, fits bool) {
	_, _, t := p.at(e)
	if at, placement, fits = p.search(e, t.ahead, sure); !fits || t.whole == nil {
		return at, placement, t.ahead, fits
	}
	if late, there, is := p.search(e, t.whole.ahead, sure); is && late <= at {
		return late, there, t.whole.ahead, true
	}
	return at, placement, p.lengthened(e, &placement, at, t.ahead, t.whole.ahead.TimeLimitS), true
}

// plannedShape is the shape with which a start was planned before.
func (t *trial) plannedShape(planned *Planned) *Shape {
	switch {
	case t.whole == nil || planned.LimitS != 0 && planned.LimitS <= t.ahead.TimeLimitS:
		return t.ahead
	case planned.LimitS == 0 || planned.LimitS >= t.whole.ahead.TimeLimitS:
		return t.whole.ahead
	}
	return t.ahead.within(planned.LimitS)
}

// settleSoonest settles a planned start. It becomes shorter rather than later.
func (p *pass) settleSoonest(of *plan) bool {
	_, _, t := p.at(of.entry)
	shorter := *of
	settles := p.settle(of)
	if t.whole == nil || of.shape == t.ahead || settles && of.StartMS <= max(shorter.StartMS, p.NowMS) {
		return settles
	}
	if shorter.shape = t.ahead; p.settle(&shorter) && (!settles || shorter.StartMS < of.StartMS) {
		*of, settles = shorter, true
		of.LimitS = p.limitOf(of.entry, of.shape)
	}
	return settles
}

// limitOf is the time limit of a job that starts with a shape, if it is not its own; 0 = it
// is.
func (p *pass) limitOf(e entry, shape *Shape) uint32 {
	if shape.TimeLimitS == p.Shapes[e.shape].TimeLimitS {
		return 0
	}
	return shape.TimeLimitS
}
