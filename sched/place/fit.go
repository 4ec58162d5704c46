package place

import (
	"cmp"
	"slices"
)

// Fit places a request on the candidates, ascending indices into nodes, or
// says what there is too little of. Of several ways it takes the one with the
// fewest nodes, then the one that leaves the fewest free devices on them, then
// the one with the lowest node indices. It changes nothing.
func Fit(nodes []Node, candidates []NodeIndex, r Request) (Placement, Shortage, bool) {
	w := newWant(&r)
	var best []share
	bestModel := ""
	for _, model := range w.models(nodes, candidates) {
		shares := w.choose(w.offers(nodes, candidates, model))
		if shares != nil && (best == nil || compareShares(shares, best) < 0) {
			best, bestModel = shares, model
		}
	}
	if best == nil {
		return Placement{}, w.shortage(nodes, candidates), false
	}
	return w.placement(nodes, best, bestModel), Shortage{}, true
}

// Suits says whether the node could be one of those that the request gets.
func Suits(n Node, r Request) bool {
	w := newWant(&r)
	nodes, candidates := []Node{n}, []NodeIndex{0}
	for _, model := range w.models(nodes, candidates) {
		if len(w.offers(nodes, candidates, model)) > 0 {
			return true
		}
	}
	return false
}

// share is a chosen node with what the job takes there.
type share struct {
	offer
	take uint64 // devices
}

// compareShares says which of two choices is better; both ascending by node.
func compareShares(a, b []share) int {
	return cmp.Or(
		len(a)-len(b),
		cmp.Compare(leftOver(a), leftOver(b)),
		slices.CompareFunc(a, b, func(a, b share) int { return int(a.node) - int(b.node) }),
	)
}

func leftOver(shares []share) uint64 {
	sum := uint64(0)
	for _, s := range shares {
		sum += s.left - s.take
	}
	return sum
}

// choose picks the nodes of a job, ascending; nil if they do not suffice.
func (w *want) choose(offers []offer) []share {
	required := 0
	for i := range offers {
		if offers[i].required {
			required++
		}
	}
	high := min(w.high, len(offers))
	if required < len(w.RequiredNodes) || w.low > high {
		return nil
	}
	if w.low == 1 {
		if one := w.chooseOne(offers); one != nil {
			return one
		}
	}
	if w.Tasks == 0 && w.spread == 0 {
		slices.SortFunc(offers, byFit)
		return w.shares(offers[:w.low], 0)
	}
	return w.chooseSum(offers, high)
}

// chooseOne picks the one node that can hold the whole job.
func (w *want) chooseOne(offers []offer) []share {
	best := -1
	for i := range offers {
		if len(w.RequiredNodes) > 0 && !offers[i].required || !w.suffices(offers[i:i+1]) {
			continue
		}
		if best < 0 || offers[i].left < offers[best].left {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return w.shares(offers[best:best+1], w.spread)
}

// chooseSum picks the fewest nodes that together hold the tasks and devices of
// the whole job.
func (w *want) chooseSum(offers []offer, high int) []share {
	rankings, low := [][]offer{ranked(offers, byFit)}, w.low
	if w.Tasks > 0 {
		best := ranked(offers, byTasks)
		low = max(low, fewest(best, uint64(w.Tasks), func(o offer) uint64 { return o.tasks }))
		rankings = append(rankings, best)
	}
	if w.spread > 0 {
		best := ranked(offers, byGPUs)
		low = max(low, fewest(best, w.spread, func(o offer) uint64 { return o.gpus }))
		rankings = append(rankings, best)
	}
	if w.Tasks > 0 && w.spread > 0 {
		rankings = append(rankings, ranked(offers, w.byBoth))
	}
	for count := low; count <= high; count++ {
		if even := w.spread / uint64(count); even > 0 && w.spread%uint64(count) == 0 {
			for _, ranking := range rankings {
				if chosen := first(ranking, count, even); w.suffices(chosen) {
					return w.shares(chosen, even)
				}
			}
		}
		for _, ranking := range rankings {
			if chosen := ranking[:count]; w.suffices(chosen) {
				return w.shares(chosen, 0)
			}
		}
	}
	return nil
}

func ranked(offers []offer, ranking func(a, b offer) int) []offer {
	sorted := slices.Clone(offers)
	slices.SortFunc(sorted, ranking)
	return sorted
}

// fewest is how many of the ranked nodes it takes at least to reach sum.
func fewest(ranked []offer, sum uint64, amount func(offer) uint64) int {
	have := uint64(0)
	for i, o := range ranked {
		if have >= sum {
			return i
		}
		have += amount(o)
	}
	if have >= sum {
		return len(ranked)
	}
	return len(ranked) + 1
}

// first is the first count nodes that have at least gpus free devices; nil if
// there are not as many, or a required node is not among them.
func first(ranked []offer, count int, gpus uint64) []offer {
	chosen := make([]offer, 0, count)
	for _, o := range ranked {
		if o.gpus >= gpus && len(chosen) < count {
			chosen = append(chosen, o)
		} else if o.required {
			return nil
		}
	}
	if len(chosen) < count {
		return nil
	}
	return chosen
}

// suffices says whether the nodes together hold the tasks and the devices of
// the whole job.
func (w *want) suffices(chosen []offer) bool {
	tasks, gpus := uint64(0), uint64(0)
	for i := range chosen {
		tasks += chosen[i].tasks
		gpus += chosen[i].gpus
	}
	return len(chosen) > 0 && tasks >= uint64(w.Tasks) && gpus >= w.spread
}

// Rankings put required nodes first, since those are taken in any case.

func byFit(a, b offer) int {
	return cmp.Or(requiredFirst(a, b), cmp.Compare(a.left, b.left), int(a.node)-int(b.node))
}

func byTasks(a, b offer) int {
	return cmp.Or(requiredFirst(a, b), cmp.Compare(b.tasks, a.tasks), cmp.Compare(a.left, b.left), int(a.node)-int(b.node))
}

func byGPUs(a, b offer) int {
	return cmp.Or(requiredFirst(a, b), cmp.Compare(b.gpus, a.gpus), cmp.Compare(a.left, b.left), int(a.node)-int(b.node))
}

// byBoth weighs tasks and devices by what the job needs of them.
func (w *want) byBoth(a, b offer) int {
	weight := func(o offer) uint64 { return o.tasks*w.spread + min(o.gpus, w.spread)*uint64(w.Tasks) }
	return cmp.Or(requiredFirst(a, b), cmp.Compare(weight(b), weight(a)), int(a.node)-int(b.node))
}

func requiredFirst(a, b offer) int {
	switch {
	case a.required == b.required:
		return 0
	case a.required:
		return -1
	}
	return 1
}

// shares divides the devices of the job over its nodes: even on each, or if
// that is 0 and they are counted per job, one on each and the rest to the
// first nodes that have them.
func (w *want) shares(chosen []offer, even uint64) []share {
	shares := make([]share, len(chosen))
	for i, o := range chosen {
		shares[i] = share{offer: o, take: max(w.gpus, even)}
	}
	slices.SortFunc(shares, func(a, b share) int { return int(a.node) - int(b.node) })
	if w.spread == 0 || even > 0 {
		return shares
	}
	rest := w.spread - uint64(len(shares))
	for i := range shares {
		more := min(rest, shares[i].gpus-1)
		shares[i].take += more
		rest -= more
	}
	return shares
}
