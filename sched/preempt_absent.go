package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// absent says of jobs, by position in Running, that they will not be on their nodes
// any more: on none of them, or not on those where they are parked.
type absent struct {
	gone   []bool
	parked [][]place.NodeIndex // ascending; nil = nobody is parked
}

func (a *absent) clone() absent { return absent{slices.Clone(a.gone), slices.Clone(a.parked)} }

// park notes on which nodes a job is parked, ascending.
func (a *absent) park(at int, nodes []place.NodeIndex) {
	if a.parked == nil {
		a.parked = make([][]place.NodeIndex, len(a.gone))
	}
	a.parked[at] = nodes
}

// back notes that a job is where it was.
func (a *absent) back(at int) {
	a.gone[at] = false
	if a.parked != nil {
		a.parked[at] = nil
	}
}

// from reports whether a job, if it is one of those, will not be on a node.
func (a *absent) from(at int, node place.NodeIndex) bool {
	switch {
	case at < 0:
		return false
	case a.gone[at] || a.parked == nil:
		return a.gone[at]
	}
	_, is := slices.BinarySearch(a.parked[at], node)
	return is
}

// nodesOf are the nodes of a placement, ascending.
func nodesOf(placement place.Placement) []place.NodeIndex {
	nodes := make([]place.NodeIndex, len(placement.Allocs))
	for i := range placement.Allocs {
		nodes[i] = placement.Allocs[i].Node
	}
	return nodes
}
