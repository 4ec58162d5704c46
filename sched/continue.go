package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file is the stage of suspended jobs: those that may continue do so when
// their own CPUs are free, and if they are parked their devices too, and get no
// others. What follows of CPUs holds for these devices as well.
//
// A suspended job has its turn after all jobs that may preempt it, waiting or
// suspended, and before all others. Jobs that could suspend it again have been
// asked first, so the two do not take turns. Jobs that could not get none of
// its CPUs, not even while some of them are missing, or small jobs would keep
// it out forever. It does not continue where there is a promise: that is for a
// job before it, and is kept soon or given up. But it does continue if a job
// before it only waits, even for what the suspended job holds.

// continuing is the suspended jobs of a pass that have not had their turn.
type continuing struct {
	rules   *preemptRules
	entries []entry
	last    map[standing]int // of each, one behind its last entry
	jobs    []suspended      // in the order of their turns
}

type suspended struct {
	*Running
	after int // the number of entries before its turn
	// chosen: it was in this pass, and does not continue in it.
	chosen  bool
	parking []place.Alloc // of a chosen one: what comes free of it where it is parked
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

// add makes a job wait for its turn.
func (c *continuing) add(p *pass, s suspended) {
	if c.rules == nil {
		c.rules, c.last = newPreemptRules(p.Snapshot), map[standing]int{}
		for at, e := range c.entries {
			_, partition, _ := p.at(e)
			c.last[standing{p.Waiting[e.job].QOS, partition, p.Waiting[e.job].Owner}] = at + 1
		}
	}
	for of, behind := range c.last { // the highest: their order does not matter
		if c.rules.goesBefore(of, s.Running) {
			s.after = max(s.after, behind)
		}
	}
	c.jobs = append(c.jobs, s)
}

// sort puts the jobs in the order of their turns: one that may preempt another
// is before it, and of the others with one turn the one that began first comes
// first.
func (c *continuing) sort() {
	slices.SortFunc(c.jobs, func(a, b suspended) int {
		return cmp.Or(cmp.Compare(a.StartMS, b.StartMS), cmp.Compare(a.ID, b.ID))
	})
	rest := c.jobs
	c.jobs = make([]suspended, 0, len(rest))
	for len(rest) > 0 {
		next := max(0, slices.IndexFunc(rest, func(s suspended) bool { // gangs on nodes of several owners may form a circle
			return !slices.ContainsFunc(rest, func(other suspended) bool { return c.rules.goesFirst(other.Running, s.Running) })
		}))
		s := rest[next]
		for _, before := range c.jobs {
			if c.rules.goesFirst(before.Running, s.Running) {
				s.after = max(s.after, before.after)
			}
		}
		c.jobs = append(c.jobs, s)
		rest = slices.Delete(rest, next, next+1)
	}
	slices.SortStableFunc(c.jobs, func(a, b suspended) int { return cmp.Compare(a.after, b.after) })
}

// before lets the jobs continue whose turn is before an entry.
func (c *continuing) before(p *pass, at int) {
	for len(c.jobs) > 0 && c.jobs[0].after <= at {
		p.tryContinue(c.jobs[0])
		c.jobs = c.jobs[1:]
	}
}

// tryContinue lets a job continue if its CPUs are free and promised to nobody.
// If they are not, at least nobody after it gets them, not even those that it
// still has.
func (p *pass) tryContinue(s suspended) {
	if p.standsBehind(s) {
		return
	}
	stays := s.chosen || slices.ContainsFunc(s.Back, func(alloc place.Alloc) bool {
		return !place.HasBack(p.nodes, alloc)
	}) || slices.ContainsFunc(s.Parked, func(node place.NodeIndex) bool {
		return !p.nodes[node].Joins(place.Stay{User: s.Placement.User, UserOnly: s.Placement.UserOnly, Exclusive: s.Exclusive})
	})
	all := slices.Concat(s.Back, s.stillHeld(), s.parking, s.Running.parking().Allocs)
	if p.room != nil && slices.ContainsFunc(all, func(alloc place.Alloc) bool { return p.room.kept[alloc.Node] }) {
		stays = true
	}
	if !stays {
		p.continues = append(p.continues, s.ID)
	}
	p.withheld = append(p.withheld, all...)
	place.TakeBack(p.nodes, s.Back)
	p.noteTaken(s.Back)
	p.room.withhold(all)
}

// standsBehind reports whether a parked job waits for what another suspended job has
// on its nodes, and gets back first whatever their ranks are. If the CPUs were kept for
// the parked one, that other one could not continue, and neither ever would.
func (p *pass) standsBehind(s suspended) bool {
	return slices.ContainsFunc(s.Parked, func(node place.NodeIndex) bool {
		at := slices.IndexFunc(s.Back, func(alloc place.Alloc) bool { return alloc.Node == node })
		devices := place.Alloc{Node: node, Devices: s.Back[at].Devices}
		stay := place.Stay{User: s.Placement.User, UserOnly: s.Placement.UserOnly, Exclusive: s.Exclusive}
		if place.HasBack(p.nodes, devices) && p.nodes[node].Joins(stay) {
			return false
		}
		return slices.ContainsFunc(p.Running, func(r Running) bool {
			_, parked := slices.BinarySearch(r.Parked, node)
			return r.ID != s.ID && r.Suspended && r.Continues && !parked && slices.ContainsFunc(r.Placement.Allocs, func(alloc place.Alloc) bool { return alloc.Node == node })
		})
	})
}

// stillHeld are the CPUs that are not free yet, by node.
func (r *Running) stillHeld() []place.Alloc {
	allocs := make([]place.Alloc, len(r.Placement.Allocs))
	for i := range r.Placement.Allocs {
		allocs[i] = place.Alloc{Node: r.Placement.Allocs[i].Node, CPUs: r.Placement.Allocs[i].CPUs}
	}
	return allocs
}

// holdsCPUs reports whether some of its CPUs are not free.
func (r *Running) holdsCPUs() bool {
	return slices.ContainsFunc(r.Placement.Allocs, func(alloc place.Alloc) bool { return !alloc.CPUs.Empty() })
}
