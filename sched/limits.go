package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// limits is the stage that keeps jobs from exceeding limits: those of accounts,
// users and QOS, and the numbers of licenses. A job that it stops blocks no
// later job, as in Slurm: it does not wait for the partition's nodes.
type limits struct {
	*Limiter
	least [][]*Ask // by shape and choice of partition; nil = not asked yet
}

// newLimits returns nil when there is nothing to limit.
func newLimits(s *Snapshot) *limits {
	if !s.Accounting.EnforceLimits && len(s.Licenses) == 0 {
		return nil
	}
	l := &limits{Limiter: NewLimiter(s), least: make([][]*Ask, len(s.Shapes))}
	for i := range l.least {
		l.least[i] = make([]*Ask, len(s.Shapes[i].Partitions))
	}
	return l
}

// stops reports whether a limit keeps a job from starting in a partition,
// wherever it may be placed, and notes it as the reason.
func (p *pass) stops(e entry) bool {
	if p.limits == nil {
		return false
	}
	c := p.charge(e)
	ask := p.limits.leastOf(p.Waiting[e.job].Shape, e.choice, &c)
	return p.waitForLimit(e, p.limits.Stops(c, ask))
}

// stopsPlaced reports the same of a placement, which may hold more than the job
// names: all of its nodes, or GPUs of a certain model. If nothing stops it, it
// is counted.
func (p *pass) stopsPlaced(e entry, placement place.Placement) bool {
	if p.limits == nil {
		return false
	}
	c := p.charge(e)
	ask := p.limits.AskPlaced(c, placement)
	if p.waitForLimit(e, p.limits.Stops(c, &ask)) {
		return true
	}
	p.limits.Take(c, ask.Amounts)
	return false
}

func (p *pass) charge(e entry) Charge {
	job := &p.Waiting[e.job]
	shape := &p.Shapes[job.Shape]
	return Charge{
		Job: job.ID, Association: job.Association, QOS: job.QOS, Partition: p.whole(shape.Partitions[e.choice]),
		UID: job.UID, TimeLimitS: shape.TimeLimitS, Licenses: job.Licenses,
	}
}

func (p *pass) waitForLimit(e entry, reached *LimitReached) bool {
	if reached == nil {
		return false
	}
	r := Reason{Code: ReasonLimit, Partition: -1, Lack: &reached.lack}
	if reached.Kind == LimitLicenses {
		r.Code = ReasonLicenses
	}
	p.wait(e, r)
	return true
}

// leastOf is the least that a job requests. Jobs of a shape share it, unless
// they want licenses, which differ from job to job.
func (l *limits) leastOf(shape int, choice int32, c *Charge) *Ask {
	if len(c.Licenses) > 0 {
		ask := l.AskLeast(*c, &l.Shapes[shape].Request)
		return &ask
	}
	known := &l.least[shape][choice]
	if *known == nil {
		ask := l.AskLeast(*c, &l.Shapes[shape].Request)
		*known = &ask
	}
	return *known
}
