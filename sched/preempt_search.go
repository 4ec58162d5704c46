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
//  1. clears the fewest nodes that the job does not get: so a gang goes for a
//     gap that it does not fill only if no other set would do,
//  2. loses the least, former losses counted,
//  3. has the fewest jobs, then the lowest numbers.
//
// All sets are looked at while exactSteps last. For a job of one node they are
// looked at node by node, the cheapest first, and never any that is dearer than
// the two best so far; before that each node's cheap choice is taken: its
// victims cheapest first until the job fits, then taken back, dearest first,
// where it still does. For a job of several nodes all sets are looked at if
// there are few enough of them; otherwise the cheap choices in
// preempt_greedy.go stand.

// exactSteps bounds the search for one task, in nodes looked at. A try counts
// for tryCost nodes more than it looks at.
const (
	exactSteps = 50_000
	tryCost    = 8
)

// victim is a running job that may be preempted.
type victim struct {
	id    JobID
	at    int // position in Running
	mode  PreemptMode
	lost  int64
	cost  int64 // with what it lost before
	nodes int

	place.Placement
	exclusive bool
}

// option is one set of victims.
type option struct {
	excess    int // nodes that are cleared and not used, once for each victim
	cost      int64
	ids       []JobID // ascending
	victims   []victim
	placement place.Placement
}

func compareOptions(a, b *option) int {
	return cmp.Or(
		cmp.Compare(a.excess, b.excess),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(len(a.ids), len(b.ids)),
		slices.Compare(a.ids, b.ids),
	)
}

// gap is the search for the victims of one job.
type gap struct {
	request    *place.Request
	nodes      []place.Node // as they will be if nobody is preempted
	work       []place.Node // the same, but while a set is tried
	on         occupants
	gone       []bool // by position in Running
	candidates []place.NodeIndex
	suits      []bool   // by node: it is one of the candidates, and of use as it is
	victims    []victim // singles before gangs, the cheapest first
	steps      int
	best, next *option
}

// newGap lists the victims on some nodes, and leaves out nodes that are of no
// use even without them.
func (p *pass) newGap(e entry, request *place.Request, nodes []place.NodeIndex) *gap {
	g := &gap{request: request, nodes: p.room.nodes, work: slices.Clone(p.room.nodes), on: p.room.on, gone: slices.Clone(p.room.leaving)}
	_, index, _ := p.at(e)
	here := make([]bool, len(g.nodes))
	for _, node := range nodes {
		here[node] = g.nodes[node].Available
	}
	for i := range p.Running {
		if v, may := p.victim(e, index, i); may && v.isOn(here) {
			g.victims = append(g.victims, v)
		}
	}
	slices.SortFunc(g.victims, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.cost, b.cost), cmp.Compare(a.id, b.id))
	})
	g.release(allOf(g.victims))
	for _, node := range nodes {
		if here[node] && place.Suits(g.work[node], *request) {
			g.candidates = append(g.candidates, node)
		}
	}
	g.undo(allOf(g.victims))
	clear(here)
	g.suits = make([]bool, len(g.nodes))
	for _, node := range g.candidates {
		here[node], g.suits[node] = true, place.Suits(g.nodes[node], *request)
	}
	g.victims = slices.DeleteFunc(g.victims, func(v victim) bool { return !v.isOn(here) })
	g.steps += len(nodes)
	return g
}

// victim is a running job as a victim of another, if it may be one now. One
// that may be later makes the next pass due then.
func (p *pass) victim(e entry, index, at int) (victim, bool) {
	running := &p.Running[at]
	if p.room.leaving[at] {
		return victim{}, false
	}
	mode := p.room.rules.mode(&p.Waiting[e.job], index, running)
	if mode == PreemptOff {
		return victim{}, false
	}
	if from := p.PreemptEligibleMS(running); from > p.NowMS {
		if p.nextMS == 0 || from < p.nextMS {
			p.nextMS = from
		}
		return victim{}, false
	}
	lost := p.room.rules.lost(running, mode)
	return victim{
		id: running.ID, at: at, mode: mode, lost: lost, cost: plus(lost, running.LostGPUMS),
		nodes: len(running.Placement.Parts), Placement: running.Placement, exclusive: running.Exclusive,
	}, true
}

func (v *victim) isOn(here []bool) bool {
	return slices.ContainsFunc(v.Parts, func(part place.Part) bool { return here[part.Node] })
}

func (g *gap) search() {
	if _, fits := g.try(allOf(g.victims), g.candidates); !fits {
		return
	}
	if _, high := g.request.NodeBounds(); high == 1 {
		g.searchNodes()
		return
	}
	if n := len(g.victims); n < 16 && (len(g.candidates)+tryCost)<<n <= exactSteps {
		g.searchSets()
		return
	}
	g.searchCheaply()
}

// try says where the job fits if a set of victims is gone.
func (g *gap) try(set []int, on []place.NodeIndex) (place.Placement, bool) {
	on = g.narrow(set, on)
	g.release(set)
	placement, fits := g.fit(on)
	g.undo(set)
	return placement, fits
}

func (g *gap) fit(on []place.NodeIndex) (place.Placement, bool) {
	g.steps += len(on) + tryCost
	placement, _, fits := place.Fit(g.work, on, *g.request)
	return placement, fits
}

// narrow leaves out nodes that are of no use, whoever of the set is gone.
func (g *gap) narrow(set []int, on []place.NodeIndex) []place.NodeIndex {
	if len(on) == 1 {
		return on
	}
	touched := make([]bool, len(g.nodes))
	for _, v := range set {
		for i := range g.victims[v].Parts {
			touched[g.victims[v].Parts[i].Node] = true
		}
	}
	var narrow []place.NodeIndex
	for _, node := range on {
		if touched[node] || g.suits[node] {
			narrow = append(narrow, node)
		}
	}
	return narrow
}

func (g *gap) release(set []int) {
	for _, v := range set {
		g.gone[g.victims[v].at] = true
		place.Release(g.work, g.victims[v].Placement, g.on.without(g.gone))
	}
}

// putBack is the opposite of release, for one victim.
func (g *gap) putBack(v int) {
	g.gone[g.victims[v].at] = false
	place.Take(g.work, g.victims[v].Placement, g.victims[v].exclusive)
}

func (g *gap) undo(set []int) {
	for _, v := range set {
		g.gone[g.victims[v].at] = false
		for i := range g.victims[v].Parts {
			node := g.victims[v].Parts[i].Node
			g.work[node] = g.nodes[node]
		}
	}
}

// offer notes a set of which nobody can stay, if it is one of the two best.
func (g *gap) offer(set []int, placement place.Placement) {
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
func (g *gap) searchSets() {
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
func (g *gap) searchNodes() {
	on := g.victimsByNode()
	for i, node := range g.candidates {
		set, placement := g.cheapest(on[node], g.candidates[i:i+1])
		if set != nil && g.hasGang(set) {
			set, placement = g.takeBack(set, g.candidates) // some may do for another of its nodes
		}
		if set != nil {
			g.offer(set, placement)
		}
	}
	limit := g.steps + exactSteps
	for i, node := range g.candidates {
		if !g.explore(g.candidates[i:i+1], on[node], nil, 0, 0, limit) {
			return
		}
	}
}

// victimsByNode is who is on each node, in the order of the victims.
func (g *gap) victimsByNode() [][]int {
	on := make([][]int, len(g.nodes))
	for v := range g.victims {
		for i := range g.victims[v].Parts {
			node := g.victims[v].Parts[i].Node
			on[node] = append(on[node], v)
		}
	}
	return on
}

// explore looks at the sets on one node that begin with chosen and go on with
// some of rest, whose weights ascend. It answers false when the steps are
// spent.
func (g *gap) explore(node []place.NodeIndex, rest, chosen []int, excess int, cost int64, limit int) bool {
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
		more, dearer := excess+g.victims[v].nodes-1, plus(cost, g.victims[v].cost)
		if g.next != nil && cmp.Or(cmp.Compare(more, g.next.excess), cmp.Compare(dearer, g.next.cost)) > 0 {
			return true
		}
		if !g.explore(node, rest[i+1:], append(slices.Clip(chosen), v), more, dearer, limit) {
			return false
		}
	}
	return true
}

// hasGang says whether a set frees more than one node.
func (g *gap) hasGang(set []int) bool {
	return slices.ContainsFunc(set, func(v int) bool { return g.victims[v].nodes > 1 })
}

// isMinimal says whether none of a set could stay.
func (g *gap) isMinimal(set []int, on []place.NodeIndex) bool {
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
