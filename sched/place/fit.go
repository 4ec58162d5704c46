package place

import (
	"cmp"
	"slices"
)

// Fit places a request on the candidates, ascending indices into nodes, or
// says what there is too little of. It changes nothing. Of several ways it
// takes, in this order, the one
//
//   - with the fewest nodes, or if the request says so, the most,
//   - below the lowest switch, and then on the fewest leaf switches,
//   - that breaks the fewest whole nodes: those with all devices free,
//   - on the leaf switches with the least room,
//   - that leaves the fewest free devices on its nodes,
//   - with the lowest node indices.
func Fit(nodes []Node, candidates []NodeIndex, r Request) (Placement, Shortage, bool) {
	placement, fits := Find(nodes, candidates, r)
	if !fits {
		return Placement{}, shortage(nodes, candidates, r), false
	}
	return placement, Shortage{}, true
}

// Find is Fit without saying what there is too little of, which costs as much again.
func Find(nodes []Node, candidates []NodeIndex, r Request) (Placement, bool) {
	var best *choice
	var by want
	for _, constraint := range r.Constraint.alternatives() {
		one := r
		one.Constraint = constraint
		w := newWant(nodes, &one)
		for _, w.model = range w.models(candidates) {
			found := w.choose(w.offers(candidates))
			if found != nil && (best == nil || w.better(found, best)) {
				best, by = found, w
			}
		}
	}
	if best == nil {
		return Placement{}, false
	}
	return by.placement(best.shares), true
}

// Suits reports whether the request could get the node as one of its nodes.
func Suits(n Node, r Request) bool {
	nodes, candidates := []Node{n}, []NodeIndex{0}
	for _, constraint := range r.Constraint.alternatives() {
		one := r
		one.Constraint = constraint
		w := newWant(nodes, &one)
		for _, w.model = range w.models(candidates) {
			if len(w.offers(candidates)) > 0 {
				return true
			}
		}
	}
	return false
}

// choice is a way to place the request.
type choice struct {
	shares []share // ascending by node
	level  uint32  // of the lowest switch above all nodes; 0 if they are on one
	leaves int     // switches that the nodes are attached to
	breaks int     // whole nodes that will no longer be whole
	left   uint64  // free devices on the nodes that the job does not get
	// With a network: what is left of all nodes that were looked at.
	room uint64
	rest int
}

// share is a chosen node with what the job takes there.
type share struct {
	offer
	lay  uint64 // units
	take uint64 // devices
}

// better reports whether a is better than b, which may have another number of
// nodes.
func (w *want) better(a, b *choice) bool {
	nodes := len(a.shares) - len(b.shares)
	if w.MostNodes {
		nodes = -nodes
	}
	return cmp.Or(nodes, a.compare(b)) < 0
}

// compare says which of two choices of as many nodes is better.
func (a *choice) compare(b *choice) int {
	return cmp.Or(
		cmp.Compare(a.level, b.level),
		a.leaves-b.leaves,
		a.breaks-b.breaks,
		cmp.Compare(a.room, b.room),
		a.rest-b.rest,
		cmp.Compare(a.left, b.left),
		slices.CompareFunc(a.shares, b.shares, func(a, b share) int { return int(a.node) - int(b.node) }),
	)
}

// choose picks the nodes of a job; nil if they do not suffice.
func (w *want) choose(offers []offer) *choice {
	low, high := w.low, min(w.high, len(offers))
	if low > high || !w.seats(offers) {
		return nil
	}
	all := w.pool(offers)
	if low == 1 && !w.MostNodes {
		if one := all.exact(1); one != nil {
			return one
		}
	}
	low = max(low, all.fewest())
	if w.Contiguous {
		high = min(high, longestRow(offers))
	}
	var scopes []scope
	if w.wired && !w.Contiguous && high > 1 {
		scopes = w.scopes(offers)
		high = min(high, w.mostBelow(scopes))
	}
	for step := range high - low + 1 {
		count := low + step
		if w.MostNodes {
			count = high - step
		}
		var found *choice
		switch {
		case count == 1 || !w.wired && !w.Contiguous:
			found = all.exact(count)
		case w.Contiguous:
			found = w.inARow(offers, count)
		default:
			found = w.nearest(scopes, count)
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// seats reports whether the offers fill the groups of the constraint at all.
func (w *want) seats(offers []offer) bool {
	groups := newSeating(&w.Constraint)
	for i := range offers {
		groups.add(offers[i].groups)
	}
	return groups.empty == 0
}

// mostBelow is how many nodes there are below one switch, or on as many leaf
// switches as the request may use.
func (w *want) mostBelow(scopes []scope) int {
	most := 1
	var leaves []int
	for _, s := range scopes {
		most = max(most, len(s.pool.offers))
		if s.level == 0 {
			leaves = append(leaves, len(s.pool.offers))
		}
	}
	if w.Switches == 0 {
		return most
	}
	slices.Sort(leaves)
	slices.Reverse(leaves)
	sum := 0
	for _, nodes := range leaves[:min(len(leaves), int(w.Switches))] {
		sum += nodes
	}
	return min(most, max(sum, 1))
}
