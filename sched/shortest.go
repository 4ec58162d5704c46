package sched

import (
	"cmp"
	"slices"
)

// This file has the jobs without a planned start come last, the shortest of them first,
// where the policy says so (BackfillPolicy.ShortestFirst).

// comesLater reports whether a job has its turn when all others have had theirs, where
// the shortest come first.
func (p *pass) comesLater(turns []entry) bool {
	return p.Backfill.On && p.Backfill.ShortestFirst && !turns[0].isOwn() && !slices.ContainsFunc(turns, func(e entry) bool {
		_, index, _ := p.at(e)
		return p.hasQuota(e.job, index, false)
	})
}

// shortestFirst considers the jobs that come later.
func (p *pass) shortestFirst() {
	slices.SortStableFunc(p.later, func(a, b []entry) int {
		first, _, _ := p.at(a[0])
		second, _, _ := p.at(b[0])
		return cmp.Or(cmp.Compare(b[0].tier, a[0].tier), cmp.Compare(first.spanMS(), second.spanMS()))
	})
	p.planning = false // or they would have their turn before others in the next pass
	for _, turns := range p.later {
		p.consider(turns)
	}
}
