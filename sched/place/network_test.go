package place

import (
	"fmt"
	"testing"
)

// leavesWith is a network of leaves under one switch: each leaf is written as
// the features of its nodes, one letter each.
func leavesWith(leaves ...string) ([]Node, []NodeIndex) {
	var nodes []Node
	var candidates []NodeIndex
	switches := make([]Switch, len(leaves)+1)
	top := &switches[len(leaves)]
	*top = Switch{Name: "top", Level: 1}
	for leaf, features := range leaves {
		switches[leaf].Name = fmt.Sprintf("leaf%d", leaf)
		for i := range features {
			n := nodeWith(4, nil)
			n.Name, n.Features = fmt.Sprintf("n%02d", len(nodes)), []string{features[i : i+1]}
			switches[leaf].Nodes = append(switches[leaf].Nodes, NodeIndex(len(nodes)))
			top.Nodes = append(top.Nodes, NodeIndex(len(nodes)))
			candidates = append(candidates, NodeIndex(len(nodes)))
			nodes = append(nodes, n)
		}
	}
	return Wire(nodes, switches), candidates
}

// leavesUsed is how many nodes a placement has on each leaf: "2,0,1".
func leavesUsed(nodes []Node, leaves int, p Placement) string {
	used := make([]int, leaves)
	for _, alloc := range p.Allocs {
		used[nodes[alloc.Node].leaf().Index]++
	}
	return fmt.Sprint(used)
}

func TestLeavesAreChosen(t *testing.T) {
	a, b := Expression{{Feature: "a"}}, Expression{{Feature: "b"}}
	both := Constraint{Groups: []Group{{Count: 2, Of: a}, {Count: 1, Of: b}}}
	for _, test := range []struct {
		name    string
		leaves  []string
		request Request
		want    string
	}{
		{"the leaf with the least room", []string{"aaaa", "aa", "aaa"}, Request{MinNodes: 2}, "[0 2 0]"},
		{"the largest and the smallest that completes it", []string{"aaa", "aaaa", "a", "aa"}, Request{MinNodes: 5}, "[0 4 1 0]"},
		{"three leaves", []string{"aa", "aaaa", "aa", "aaa"}, Request{MinNodes: 8}, "[0 3 2 3]"},
		{"a limit that the largest leaves do not meet", []string{"a", "aa", "b"}, Request{Switches: 2, Constraint: both}, "[0 2 1]"},
		{"a limit, where one of the named nodes is", []string{"aaaa", "aaaa", "aa"}, Request{MinNodes: 3, Switches: 2, RequiredNodes: []string{"n08"}}, "[0 1 2]"},
		{"nothing within the limit", []string{"aaa", "aaa"}, Request{MinNodes: 4, Switches: 1}, ""},
	} {
		nodes, candidates := leavesWith(test.leaves...)
		test.request.MemoryPerNode = 1
		p, short, fits := Fit(nodes, candidates, test.request)
		got := ""
		if fits {
			got = leavesUsed(nodes, len(test.leaves), p)
		} else if short.What != Leaves {
			t.Errorf("%s: short of %+v", test.name, short)
		}
		if got != test.want {
			t.Errorf("%s: nodes by leaf %s, want %s", test.name, got, test.want)
		}
	}
}

// TestOneNodeGoesToTheLeafWithTheFewestWholeNodes: so that gangs find others.
func TestOneNodeGoesToTheLeafWithTheFewestWholeNodes(t *testing.T) {
	nodes, candidates := leavesWith("aaaa", "aa", "aaa")
	p, _, fits := Fit(nodes, candidates, Request{GPUsPerNode: 1, MemoryPerNode: 1})
	if !fits || leavesUsed(nodes, 3, p) != "[0 1 0]" {
		t.Errorf("%+v, fits %v", p, fits)
	}
}

// TestManyLeavesAreTriedWithinBounds: a limit that cannot be met on very many
// leaves ends all the same.
func TestManyLeavesAreTriedWithinBounds(t *testing.T) {
	leaves := make([]string, 200)
	for i := range leaves {
		leaves[i] = "aa"
	}
	nodes, candidates := leavesWith(leaves...)
	r := Request{MinNodes: 20, Switches: 11, MemoryPerNode: 1, Constraint: Constraint{Groups: []Group{{Count: 1, Of: Expression{{Feature: "b"}}}}}}
	if _, _, fits := Fit(nodes, candidates, r); fits {
		t.Error("a feature that no node has is found")
	}
	nodes[399].Features = []string{"b"}
	if p, _, fits := Fit(nodes, candidates, r); fits && len(p.Allocs) != 20 {
		t.Errorf("%d nodes", len(p.Allocs))
	}
}
