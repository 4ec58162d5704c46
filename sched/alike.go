package sched

import "cmp"

// This file decides a shape once: what keeps one job of it from starting keeps the next
// ones too, until something changes that matters to them. There are many more jobs than
// shapes.

// newAlike reports whether jobs of a shape wait for the same: nothing counts for one of
// them and not for another.
func (p *pass) newAlike() bool {
	return p.limits == nil && p.Preemption.Type == PreemptNone && !p.Backfill.ShortestFirst
}

// waitsLike gives a job the reason for which those of its shape wait that had their turns
// before. It returns false if there is more to be done for it.
func (p *pass) waitsLike(e entry) bool {
	if !p.alike || len(p.trials[e.shape]) != 1 || p.promised.left > 0 {
		return false
	}
	_, index, t := p.at(e)
	here := &p.partitions[index]
	before := cmp.Or(here.blocker, t.blocker, p.firstIn(e, here))
	var r Reason
	switch {
	case t.ruled && t.rule.Code == ReasonNetwork: // with an image it is another one
		return false
	case t.ruled && t.rule.Code != ReasonNone:
		r = t.rule
	case !t.judged || here.blocker == 0 && (!t.failed || t.lifts != p.lifts):
		return false
	case t.verdict.code != ReasonNone && p.opensLater(t, index): // it may be planned apart
		return false
	case t.verdict.code != ReasonNone:
		r = t.verdict.reason(index)
	case before == 0 || here.blocker == 0 && p.Backfill.On && p.hasQuota(e.job, index, false):
		return false
	default:
		r = Reason{Code: ReasonPriority, Partition: int32(index), Blocker: before}
	}
	p.wait(e, r)
	p.noteBehind(e)
	return true
}
