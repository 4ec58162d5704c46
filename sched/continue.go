package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file is the stage of suspended jobs: those that may go on do so when
// their own CPUs are free, and get no others.
//
// A suspended job has its turn behind all jobs that may preempt it, waiting or
// suspended, and before all others. Who could suspend it again has been asked
// first, so the two do not take turns; and who could not gets none of its CPUs,
// not even while some of them are missing, or small jobs would keep it out for
// ever. It does not go on where a promise stands: that is for somebody before it,
// and is kept soon or given up. But it does where somebody before it only waits,
// who may want what it holds while it stands.

// continuing is the suspended jobs of a pass that have not had their turn.
type continuing struct {
	rules   *preemptRules
	entries []entry
	last    map[waitingClass]int // of each class, one behind its last entry
	jobs    []suspended          // in the order of their turns
}

type suspended struct {
	*Running
	after int // the number of entries before its turn
	// chosen: it was in this pass, and does not go on in it.
	chosen bool
}

func newContinuing(p *pass, entries []entry) *continuing {
	c := &continuing{entries: entries}
	for i := range p.Running {
		if r := &p.Running[i]; r.Suspended && r.Continues {
			c.add(p, suspended{Running: r})
		}
	}
	c.sort()
	return c
}

// add has a job wait for its turn.
func (c *continuing) add(p *pass, s suspended) {
	if c.rules == nil {
		c.rules, c.last = newPreemptRules(p.Snapshot), map[waitingClass]int{}
		for at, e := range c.entries {
			_, partition, _ := p.at(e)
			c.last[waitingClass{p.Waiting[e.job].QOS, partition}] = at + 1
		}
	}
	for class, behind := range c.last { // the highest: their order does not matter
		if c.rules.above(class.qos, class.partition, s.Running) {
			s.after = max(s.after, behind)
		}
	}
	c.jobs = append(c.jobs, s)
}

// waitingClass is what decides whom a waiting job may preempt.
type waitingClass struct {
	qos       int32
	partition int
}

// sort puts the jobs in the order of their turns: one that may preempt another
// is before it, and of the others with one turn the one that began first.
func (c *continuing) sort() {
	slices.SortFunc(c.jobs, func(a, b suspended) int {
		return cmp.Or(cmp.Compare(a.StartMS, b.StartMS), cmp.Compare(a.ID, b.ID))
	})
	rest := c.jobs
	c.jobs = make([]suspended, 0, len(rest))
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, func(s suspended) bool {
			return !slices.ContainsFunc(rest, func(other suspended) bool { return c.rules.above(other.QOS, other.Partition, s.Running) })
		})
		s := rest[next]
		for _, before := range c.jobs {
			if c.rules.above(before.QOS, before.Partition, s.Running) {
				s.after = max(s.after, before.after)
			}
		}
		c.jobs = append(c.jobs, s)
		rest = slices.Delete(rest, next, next+1)
	}
	slices.SortStableFunc(c.jobs, func(a, b suspended) int { return cmp.Compare(a.after, b.after) })
}

// before has those go on whose turn is before an entry.
func (c *continuing) before(p *pass, at int) {
	for len(c.jobs) > 0 && c.jobs[0].after <= at {
		p.tryContinue(c.jobs[0])
		c.jobs = c.jobs[1:]
	}
}

// tryContinue has a job go on if its CPUs are free and promised to nobody. If
// not, at least nobody behind it gets them, also not those that it has still.
func (p *pass) tryContinue(s suspended) {
	stays := s.chosen || slices.ContainsFunc(s.Back, func(part place.Part) bool {
		return !part.CPUs.Minus(p.nodes[part.Node].FreeCPUs).Empty()
	})
	all := slices.Concat(s.Back, s.Placement.Parts)
	if p.room != nil && slices.ContainsFunc(all, func(part place.Part) bool { return p.room.kept[part.Node] }) {
		stays = true
	}
	if !stays {
		p.continues = append(p.continues, s.ID)
	}
	p.withheld = append(p.withheld, all...)
	place.TakeCPUs(p.nodes, s.Back)
	p.room.withhold(all)
}

// holdsCPUs says whether some of its CPUs are not free.
func (r *Running) holdsCPUs() bool {
	return slices.ContainsFunc(r.Placement.Parts, func(part place.Part) bool { return !part.CPUs.Empty() })
}
