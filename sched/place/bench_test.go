package place

import (
	"fmt"
	"testing"
)

// BenchmarkFit is one search among 1,000 nodes of 8 GPUs, 16 to a leaf switch,
// of which every other one has a GPU in use: what each part of a request adds.
func BenchmarkFit(b *testing.B) {
	plain := make([]Node, 1000)
	switches := make([]Switch, 63)
	var candidates []NodeIndex
	top := Switch{Name: "top", Level: 1}
	for i := range plain {
		n := nodeWith(8, islands(8, 4))
		n.Features = []string{"ib", fmt.Sprintf("rack%02d", i%50)}
		if n.Devices[0].FreeShares = uint32(i % 2); i%2 == 0 {
			n.Busy = true
		}
		plain[i] = n
		candidates = append(candidates, NodeIndex(i))
		switches[i/16].Nodes = append(switches[i/16].Nodes, NodeIndex(i))
		top.Nodes = append(top.Nodes, NodeIndex(i))
	}
	wired := Wire(plain, append(switches, top))
	one, gang := Request{GPUsPerNode: 2, MemoryPerNode: 1}, Request{MinNodes: 32, GPUsPerNode: 4, MemoryPerNode: 1}
	with := func(r Request, change func(r *Request)) Request { change(&r); return r }
	for _, bench := range []struct {
		name    string
		nodes   []Node
		request Request
	}{
		{"one", plain, one},
		{"gang", plain, gang},
		{"one/feature", plain, with(one, func(r *Request) { r.Constraint.Each = Expression{{Feature: "rack07"}} })},
		{"gang/counts", plain, with(gang, func(r *Request) {
			r.Constraint.Groups = []Group{{Count: 16, Of: Expression{{Feature: "rack07"}}}, {Count: 16, Of: Expression{{Feature: "ib"}}}}
		})},
		{"gang/tasks", plain, Request{Tasks: 128, GPUsPerTask: 1, MemoryPerNode: 1}},
		{"one/network", wired, one},
		{"gang/network", wired, gang},
		{"gang/network/leaves=2", wired, with(gang, func(r *Request) { r.Switches = 2 })},
		{"gang/network/full", wired, with(gang, func(r *Request) { r.Switches = 1 })},
		{"gang/row", plain, with(gang, func(r *Request) { r.Contiguous = true })},
		{"large/network", wired, with(gang, func(r *Request) { r.MinNodes = 500 })},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				Fit(bench.nodes, candidates, bench.request)
			}
		})
	}
}
