package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has the rules that choose victims where there are too many sets to
// look at them all. They find a set in which nobody can stay, not always the
// cheapest:
//
//   - Each node gets a price: the cost of the victims that make room there for
//     an even share of the job, the cheapest first, a gang's cost divided by its
//     nodes. Nodes are cleared in the order of their prices until the job fits.
//   - Or victims go one by one, the cheapest first, until it fits.
//
// Then they are taken back one by one, the most expensive first, if the job
// still fits. Both rules are tried with all victims and without gangs; and, for
// the next best, the first without each of the most expensive of those chosen.

// banned bounds how many victims are left out, one by one, for the next best.
const banned = 3

func (g *victimSearch) searchCheaply() {
	all := allOf(g.victims)
	singles := slices.DeleteFunc(slices.Clone(all), func(v int) bool { return g.victims[v].nodes > 1 })
	for _, victims := range [][]int{all, singles} {
		g.clear(g.byNode(victims))
		g.clear(g.byCost(victims))
	}
	if g.best == nil {
		return
	}
	chosen := slices.Clone(g.best.ids)
	out := 0
	for v := len(all) - 1; v >= 0 && out < banned; v-- {
		if slices.Contains(chosen, g.victims[v].id) {
			g.clear(g.byNode(without(all, v)))
			out++
		}
	}
}

// clear takes away as many sets of victims as it needs for the job to fit.
func (g *victimSearch) clear(sets [][]int) {
	upTo := func(n int) []int { return union(sets[:n]) }
	n := sort.Search(len(sets), func(n int) bool {
		_, fits := g.try(upTo(n), g.candidates)
		return fits
	})
	if set, placement := g.spare(upTo(n), g.candidates); set != nil {
		g.offer(set, placement)
	}
}

// byCost is the victims, the cheapest first.
func (g *victimSearch) byCost(victims []int) [][]int {
	sets := make([][]int, len(victims))
	for i, v := range victims {
		sets[i] = []int{v}
	}
	slices.SortStableFunc(sets, func(a, b []int) int { return cmp.Compare(g.victims[a[0]].cost, g.victims[b[0]].cost) })
	return sets
}

// byNode is the victims of each node, those of the cheapest node first.
func (g *victimSearch) byNode(victims []int) [][]int {
	whole := g.request
	share := evenShare(*whole)
	type priced struct {
		excess int
		cost   int64
		set    []int
	}
	_, high := whole.NodeBounds()
	var nodes []priced
	allowed := make([]bool, len(g.victims))
	for _, v := range victims {
		allowed[v] = true
	}
	byNode := g.victimsByNode()
	for i, node := range g.candidates {
		on := slices.DeleteFunc(byNode[node], func(v int) bool { return !allowed[v] })
		if len(on) == 0 {
			continue
		}
		g.request = &share
		set, _ := g.cheapest(on, g.candidates[i:i+1])
		g.request = whole
		n := priced{set: on}
		if set != nil {
			n.set = set
		}
		for _, v := range n.set {
			victim := &g.victims[v]
			n.excess += max(0, victim.nodes-int(min(high, 1<<30)))
			n.cost = plus(n.cost, victim.cost/int64(victim.nodes))
		}
		nodes = append(nodes, n)
	}
	slices.SortStableFunc(nodes, func(a, b priced) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.cost, b.cost))
	})
	sets := make([][]int, len(nodes))
	for i := range nodes {
		sets[i] = nodes[i].set
	}
	return sets
}

// evenShare is what a request asks of one node if its tasks and GPUs are
// divided evenly over the fewest nodes.
func evenShare(r place.Request) place.Request {
	low, _ := r.NodeBounds()
	divided := func(n uint32) uint32 { return n/low + min(n%low, 1) }
	r.MinNodes, r.MaxNodes = 1, 1
	r.Tasks, r.GPUsPerJob = divided(r.Tasks), divided(r.GPUsPerJob)
	r.RequiredNodes = nil
	return r
}

// cheapest is victims taken cheapest first until the job fits, and then taken
// back where it still does; nil if it never fits.
func (g *victimSearch) cheapest(victims []int, on []place.NodeIndex) ([]int, place.Placement) {
	for n := 1; n <= len(victims); n++ {
		if _, fits := g.try(victims[:n], on); fits {
			return g.spare(victims[:n], on)
		}
	}
	return nil, place.Placement{}
}

// spare leaves out victims one by one, the most expensive first, as long as the
// job fits; nil if it does not.
func (g *victimSearch) spare(set []int, on []place.NodeIndex) ([]int, place.Placement) {
	placement, fits := g.try(set, on)
	if !fits {
		return nil, placement
	}
	// A job on none of the nodes that it gets is not in the way.
	set = slices.DeleteFunc(slices.Clone(set), func(v int) bool { return onNodes(g.victims[v].Placement, placement) == 0 })
	slices.Sort(set)
	on = g.narrow(set, on)
	g.release(set)
	defer g.undo(slices.Clone(set))
	for i := len(set) - 1; i >= 0; i-- {
		g.putBack(set[i])
		if _, fits := g.fit(on); fits {
			set = slices.Delete(set, i, i+1)
		} else {
			g.release(set[i : i+1])
		}
	}
	placement, _ = g.fit(on)
	return set, placement
}

// union is the members of some sets, each once, ascending.
func union(sets [][]int) []int {
	all := slices.Concat(sets...)
	slices.Sort(all)
	return slices.Compact(all)
}
