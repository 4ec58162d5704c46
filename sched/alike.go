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
	if !e.isOwn() {
		p.like.of[e.shape] = likeReason{p.like.round, r, 1 + uint32(len(p.plans))}
	}
	return true
}

// like is what the next jobs of a shape are told, until something changes that matters to
// them. Then, or at the end, all that had their turns meanwhile are told together: most
// jobs of a long queue, in the order in which they lie.
type like struct {
	round   uint32       // of reasons; from 1
	from    int          // the first turn of it
	of      []likeReason // by shape
	skipped int          // jobs in this round that are not told yet
	stamp   likeStamp
}

type likeReason struct {
	round  uint32 // in which it holds
	reason Reason
	behind uint32 // as in pass.behind
}

// likeStamp changes with all that may change a reason of waitsLike: nodes that are kept for
// a job, planned starts that were lifted, and those that were made.
type likeStamp struct{ closings, lifts, plans int }

// skips reports whether a job waits for what the last one of its shape waits for. It is told
// later. had are the turns before.
func (p *pass) skips(e entry, had []entry) bool {
	l := &p.like
	if now := (likeStamp{p.closings, p.lifts, len(p.plans)}); now != l.stamp {
		for i := l.from; i < len(had) && l.skipped > 0; i++ {
			p.tellSkipped(had[i].job)
		}
		l.round, l.from, l.stamp = l.round+1, len(had), now
	}
	if l.of[e.shape].round != l.round || e.isOwn() {
		return false
	}
	l.skipped++
	return true
}

// tellAllSkipped is for when all jobs had their turns.
func (p *pass) tellAllSkipped() {
	for i := 0; i < len(p.Waiting) && p.like.skipped > 0; i++ {
		p.tellSkipped(int32(i))
	}
}

// tellSkipped tells a job that had its turn, if it was skipped: then it may start, has had
// no reason yet, and its shape has one.
func (p *pass) tellSkipped(job int32) {
	r, of := &p.reasons[job], &p.like.of[p.shapeOf[job]]
	if r.Code != ReasonNone || of.round != p.like.round || p.left[job] == 0 {
		return
	}
	id := r.Job
	*r = of.reason
	r.Job = id
	if p.Backfill.On && !p.hasPlan[job] && p.behind[job] == 0 {
		p.behind[job] = of.behind
	}
	p.like.skipped--
}
