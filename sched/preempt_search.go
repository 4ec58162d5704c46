package sched

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file chooses victims. Of all sets of jobs without which a job fits, and
// of which none could stay, the best one
//
//  1. clears the fewest nodes that the job does not get: so a gang is preempted
//     for a gap that it does not fill only if no other set would do,
//  2. loses the least, former losses counted,
//  3. has the fewest jobs, then the lowest numbers.
//
// All sets are looked at while exactSteps last. For a job of one node they are
// looked at node by node, the cheapest first, and never any that is more
// expensive than the two best so far; before that each node's cheap choice is
// taken: its victims cheapest first until the job fits, then taken back, most
// expensive first, where it still does. For a job of several nodes all sets are
// looked at if there are few enough of them; otherwise the cheap choices in
// preempt_greedy.go are used.

// exactSteps bounds the search for one task, in nodes looked at. A try counts
// for tryCost nodes more than it looks at.
const (
	exactSteps = 50_000
	tryCost    = 8
)

func (g *victimSearch) search() {
	if _, high := g.request.NodeBounds(); high == 1 {
		g.searchNodes()
		return
	}
	if _, fits := g.try(allOf(g.victims), g.candidates); !fits {
		return
	}
	if n := len(g.victims); n < 16 && (len(g.candidates)+tryCost)<<n <= exactSteps {
		g.searchSets()
		return
	}
	g.searchCheaply()
}

// offer notes a set of which nobody can stay, if it is one of the two best.
func (g *victimSearch) offer(set []int, placement place.Placement) {
	o := &option{placement: placement}
	for _, v := range set {
		victim := &g.victims[v]
		o.excess += victim.nodes - onNodes(victim.Placement, placement)
		o.cost = plus(o.cost, victim.cost)
		o.ids = append(o.ids, victim.id)
		o.victims = append(o.victims, *victim)
	}
	slices.Sort(o.ids)
	slices.SortFunc(o.victims, func(a, b victim) int { return cmp.Compare(a.id, b.id) })
	switch {
	case g.best == nil:
		g.best = o
	case slices.Equal(o.ids, g.best.ids):
	case compareOptions(o, g.best) < 0:
		g.best, g.next = o, g.best
	case g.next == nil || compareOptions(o, g.next) < 0:
		g.next = o
	}
}

// searchSets looks at all sets, the smaller ones first, so that what contains
// one that suffices need not be looked at.
func (g *victimSearch) searchSets() {
	var enough []uint32
	n := len(g.victims)
	for size := 1; size <= n; size++ {
		for mask := uint32(1)<<size - 1; mask < 1<<n; mask = nextOfSize(mask) {
			if slices.ContainsFunc(enough, func(smaller uint32) bool { return mask&smaller == smaller }) {
				continue
			}
			set := members(mask)
			if placement, fits := g.try(set, g.candidates); fits {
				enough = append(enough, mask)
				g.offer(set, placement)
			}
		}
	}
}

// nextOfSize is the next number with as many bits set.
func nextOfSize(mask uint32) uint32 {
	lowest := mask & -mask
	ripple := mask + lowest
	return ripple | (mask^ripple)>>2/lowest
}

func members(mask uint32) []int {
	set := make([]int, 0, bits.OnesCount32(mask))
	for ; mask != 0; mask &= mask - 1 {
		set = append(set, bits.TrailingZeros32(mask))
	}
	return set
}

// searchNodes is for a job of one node.
func (g *victimSearch) searchNodes() {
	on := g.victimsByNode()
	nodes := slices.DeleteFunc(slices.Clone(g.candidates), func(node place.NodeIndex) bool { return len(on[node]) == 0 })
	slices.SortFunc(nodes, func(a, b place.NodeIndex) int { // by the cheapest victim there
		return cmp.Or(cmp.Compare(on[a][0], on[b][0]), cmp.Compare(a, b))
	})
	tooExpensive := func(node place.NodeIndex) bool { // also where it would only be as good: parked guests all cost alike
		first, next := &g.victims[on[node][0]], g.next
		return next != nil && cmp.Or(
			cmp.Compare(first.nodes-1, next.excess), cmp.Compare(first.cost, next.cost), cmp.Compare(1, len(next.ids)), cmp.Compare(first.id, next.ids[0]),
		) > 0
	}
	for i, node := range nodes {
		if tooExpensive(node) {
			break
		}
		set, placement := g.cheapest(on[node], nodes[i:i+1])
		if set != nil && g.hasGang(set) {
			set, placement = g.spare(set, g.candidates) // some may do for another of its nodes
		}
		if set != nil {
			g.offer(set, placement)
		}
	}
	limit := g.steps + exactSteps
	for i, node := range nodes {
		if tooExpensive(node) || !g.explore(nodes[i:i+1], on[node], nil, 0, 0, limit) {
			return
		}
	}
}

// tooExpensive reports whether a set of at least this weight is none of the two best.
func (g *victimSearch) tooExpensive(excess int, cost int64) bool {
	return g.next != nil && cmp.Or(cmp.Compare(excess, g.next.excess), cmp.Compare(cost, g.next.cost)) > 0
}

// victimsByNode is the victims on each node, in their order.
func (g *victimSearch) victimsByNode() [][]int {
	on := make([][]int, len(g.nodes))
	for v := range g.victims {
		for i := range g.victims[v].Allocs {
			node := g.victims[v].Allocs[i].Node
			on[node] = append(on[node], v)
		}
	}
	return on
}

// explore looks at the sets on one node that begin with chosen and continue with
// some of rest, whose weights ascend. It returns false when the steps are
// spent.
func (g *victimSearch) explore(node []place.NodeIndex, rest, chosen []int, excess int, cost int64, limit int) bool {
	if g.steps >= limit {
		return false
	}
	if placement, fits := g.try(chosen, node); fits {
		on := node
		if g.hasGang(chosen) {
			on = g.candidates
		}
		if g.isMinimal(chosen, on) {
			g.offer(chosen, placement)
		}
		return true
	}
	if _, fits := g.try(slices.Concat(chosen, rest), node); !fits {
		return true
	}
	for i, v := range rest {
		more, costs := excess+g.victims[v].nodes-1, plus(cost, g.victims[v].cost)
		if g.tooExpensive(more, costs) {
			return true
		}
		if !g.explore(node, rest[i+1:], append(slices.Clip(chosen), v), more, costs, limit) {
			return false
		}
	}
	return true
}

// hasGang reports whether a set frees more than one node.
func (g *victimSearch) hasGang(set []int) bool {
	return slices.ContainsFunc(set, func(v int) bool { return g.victims[v].nodes > 1 })
}

// isMinimal reports whether none of a set could stay.
func (g *victimSearch) isMinimal(set []int, on []place.NodeIndex) bool {
	for i := range set {
		if _, fits := g.try(without(set, i), on); fits {
			return false
		}
	}
	return true
}

func without(set []int, at int) []int { return slices.Delete(slices.Clone(set), at, at+1) }

func allOf(victims []victim) []int {
	all := make([]int, len(victims))
	for i := range all {
		all[i] = i
	}
	return all
}
