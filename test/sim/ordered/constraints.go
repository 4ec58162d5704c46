package ordered

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// Features of nodes. The first three nodes, which have GPUs, are "fast",
// "big,fast" and "big"; the others are plain.
const (
	fast = "fast"
	big  = "big"
)

// featuresOf are those of a node, by its number from 0, ascending.
func featuresOf(node int) []string {
	return [][]string{{fast}, {big, fast}, {big}, nil}[min(node, 3)]
}

// constraints are what users type, and what they mean.
var constraints = []struct {
	text string
	most uint32 // nodes there may be of it
	met  func(fast, big bool) bool
}{
	{fast + "|" + big, 3, func(fast, big bool) bool { return fast || big }},
	{fast, 2, func(fast, _ bool) bool { return fast }},
	{big + "&" + fast, 1, func(fast, big bool) bool { return fast && big }},
	{big + "&!" + fast, 1, func(fast, big bool) bool { return big && !fast }},
}

func (w *World) drawConstraint(in *intent) {
	if w.rng.IntN(6) > 0 {
		return
	}
	if c := pick(w.rng, constraints); max(in.spec.GetMinNodes(), 1) <= c.most {
		in.spec.Constraint = c.text
	}
}

// checkConstraint is asked of each allocation that a node takes.
func (t *truth) checkConstraint(s *node.Shim) {
	for _, c := range constraints {
		if c.text == s.Order.GetSpec().GetConstraint() && !c.met(slices.Contains(s.Node.Features, fast), slices.Contains(s.Node.Features, big)) {
			t.w.fail("wrong node: allocation %s wants %q, and %s has %v", s.Key, c.text, s.Node.Name, s.Node.Features)
		}
	}
}
