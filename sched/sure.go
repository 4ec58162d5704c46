package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file keeps planned starts from moving because a prediction was wrong. Jobs may be
// planned for less than their time limits (Shape.PlannedS, Running.PlannedEndMS), and then
// run longer. So there are two profiles where the policy says so: one by what jobs are
// planned for, and one by their limits. The first planned start of each partition is found
// in both, and stands in both. What starts must fit in both, so that it is gone by its limit
// when the first one is to start. All other plans go by the first profile only.

// terms are for how long a job is planned, and its time limit, in milliseconds.
type terms struct {
	likely, sure int64 // sure: notSure = only the first counts
}

const notSure = -1

func both(ms int64) terms { return terms{ms, ms} }

// terms are those of a job of the shape.
func (s *Shape) terms(sure bool) terms {
	if !sure {
		return terms{s.spanMS(), notSure}
	}
	return terms{s.spanMS(), s.longestMS()}
}

func (of *plan) terms() terms { return of.shape.terms(of.Sure) }

// isSure reports whether the start of a job that is planned now goes by time limits: the
// first in a partition does, and one that did so before.
func (p *pass) isSure(e entry, old []int, apart bool) bool {
	if !p.Backfill.FirstByLimits {
		return false
	}
	if len(old) > 0 && p.promised.plans[old[0]].Sure {
		return true
	}
	_, index, _ := p.at(e)
	return *p.partitions[p.whole(index)].planned.of(apart) == 0
}

// triedNow reports whether a start is planned for now, at the job's turn. The start fits by
// the times that jobs are planned for, and does not fit by their limits.
func (p *pass) triedNow(of *plan) bool {
	if !p.Backfill.FirstByLimits || of.StartMS > p.NowMS {
		return false
	}
	p.promised.note(of.Job, Moved{By: MovedByLimits})
	return true
}

// sureEndMS is when a running job gives back what it holds at the latest.
func (p *pass) sureEndMS(r *Running) int64 {
	if r.Ending || r.Suspended || r.Fills {
		return p.endMS(r)
	}
	return p.limitMS(r)
}

func (f *future) isSure(span terms) bool { return f.sure != nil && span.sure != notSure }

// ifSure is a time if there are two profiles.
func (f *future) ifSure(ms int64) int64 {
	if f.sure == nil {
		return 0
	}
	return ms
}

// stays is when a job is on its nodes, as far as others' jobs matter.
func (f *future) stays(from int64, span terms) profile.Interval {
	to := after(from, span.likely)
	if f.isSure(span) {
		to = max(to, after(from, span.sure))
	}
	return profile.Interval{From: from, To: to}
}

// add adds a lane.
func (f *future) add(room []int64) {
	f.profile.Add(room)
	if f.sure != nil {
		f.sure.Add(slices.Clone(room))
	}
}

// book takes something of a lane for a span, and free gives it back.
func (f *future) book(lane int, from int64, span terms, room []int64) {
	f.profile.Take(lane, from, after(from, span.likely), room)
	if f.isSure(span) {
		f.sure.Take(lane, from, after(from, span.sure), room)
	}
}

func (f *future) free(lane int, from int64, span terms, room []int64) {
	f.profile.Give(lane, from, after(from, span.likely), room)
	if f.isSure(span) {
		f.sure.Give(lane, from, after(from, span.sure), room)
	}
}

// least is what is free of a lane all through a span. It is valid until the next call.
func (f *future) least(lane int, from int64, span terms) []int64 {
	f.room = f.profile.Least(lane, from, after(from, span.likely), f.room)
	if f.isSure(span) {
		f.sureRoom = f.sure.Least(lane, from, after(from, span.sure), f.sureRoom)
		for i := range f.room {
			f.room[i] = min(f.room[i], f.sureRoom[i])
		}
	}
	return f.room
}

// fits reports whether a lane has room all through a span.
func (f *future) fits(lane int, from int64, span terms, room []int64) bool {
	return f.profile.Fits(lane, from, after(from, span.likely), room) &&
		(!f.isSure(span) || f.sure.Fits(lane, from, after(from, span.sure), room))
}

// until is until when a lane has room for what is there for a span.
func (f *future) until(lane int, from int64, span terms, room []int64) int64 {
	until := f.profile.Until(lane, after(from, span.likely), room)
	if f.isSure(span) {
		until = min(until, f.sure.Until(lane, after(from, span.sure), room))
	}
	return until
}

// holes appends when a job may begin that needs room in a lane for a span.
func (f *future) holes(lane int, from int64, span terms, room []int64, holes []profile.Interval) []profile.Interval {
	holes = f.profile.Holes(lane, from, span.likely, room, holes)
	if !f.isSure(span) || len(holes) == 0 {
		return holes
	}
	return inBoth(holes, f.sure.Holes(lane, from, span.sure, room, nil))
}

// inBoth is what two lists of intervals have in common, all ascending.
func inBoth(a, b []profile.Interval) []profile.Interval {
	var out []profile.Interval
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if both := (profile.Interval{From: max(a[i].From, b[j].From), To: min(a[i].To, b[j].To)}); both.From < both.To {
			out = append(out, both)
		}
		if a[i].To < b[j].To {
			i++
		} else {
			j++
		}
	}
	return out
}
