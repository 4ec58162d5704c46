package place

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// randomGuests bounds what guests have on some nodes, some of it in use.
func randomGuests(random *rand.Rand, nodes []Node) {
	for i := range nodes {
		if random.IntN(2) == 0 {
			continue
		}
		g := Guests{Bound: true, GPUs: random.Uint32N(4), MemoryBytes: uint64(random.IntN(8)) << 30, TmpBytes: 1 << 40}
		g.FreeGPUs, g.FreeBytes, g.FreeTmp = random.Uint32N(g.GPUs+1), g.MemoryBytes, g.TmpBytes
		if random.IntN(3) == 0 {
			g.FreeBytes /= 2
		}
		nodes[i].Guests = g
	}
}

// within reports whether a placement leaves guests what they may have.
func within(nodes []Node, r Request, p Placement) bool {
	for _, alloc := range p.Allocs {
		n := &nodes[alloc.Node]
		if r.bound(n) && (len(alloc.Devices) > int(n.Guests.FreeGPUs) || alloc.MemoryBytes > n.Guests.FreeBytes || alloc.TmpBytes > n.Guests.FreeTmp) {
			return false
		}
	}
	return true
}

// TestGuestsAreBounded: guests get no more than they may have together, and are placed
// wherever that lets them be; whoever owns the nodes is not bound.
func TestGuestsAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	fitted, kept := 0, 0
	for range 20000 {
		free := randomNodes(random, 1+random.IntN(6))
		var candidates []NodeIndex
		for i := range free {
			candidates = append(candidates, NodeIndex(i))
		}
		nodes := slices.Clone(free)
		randomGuests(random, nodes)
		r := randomRequest(random, nodes)
		anyhow, _, fitsAnyhow := Fit(free, candidates, r)
		for i := range nodes {
			r.GuestOn = append(r.GuestOn, nodes[i].Name)
		}
		p, short, fits := Fit(nodes, candidates, r)
		switch {
		case fits && !within(nodes, r, p):
			t.Fatalf("guests get more than they may have: %+v\nrequest %+v\nnodes %+v", p, r, nodes)
		case fits && !fitsAnyhow && (r.MemoryPerNode > 0 || r.MemoryPerCPU > 0 || r.MemoryPerGPU > 0):
			t.Fatalf("it fits only where guests are bounded\nrequest %+v\nnodes %+v", r, nodes)
		case !fits && fitsAnyhow && within(nodes, r, anyhow) && (r.Tasks == 0 || r.GPUsPerJob == 0):
			t.Fatalf("it does not fit (%+v), and %+v leaves guests what they may have\nrequest %+v\nnodes %+v", short, anyhow, r, nodes)
		case !fits && short.What == Nothing:
			t.Fatalf("no shortage is named\nrequest %+v\nnodes %+v", r, nodes)
		case fits:
			fitted++
		case fitsAnyhow:
			kept++
		}
		r.GuestOn = nil
		if own, _, fitsOwn := Fit(nodes, candidates, r); fitsOwn != fitsAnyhow || !reflect.DeepEqual(own, anyhow) {
			t.Fatalf("the owner is bound: %+v, without bounds %+v", own, anyhow)
		}
		if !fits {
			continue
		}
		for _, alloc := range p.Allocs {
			before := nodes[alloc.Node].Guests
			one := Placement{Allocs: []Alloc{alloc}}
			booked := slices.Clone(nodes)
			Take(booked, one, false)
			if alloc.Guest != before.Bound || alloc.Guest && booked[alloc.Node].Guests.FreeGPUs != before.FreeGPUs-uint32(len(alloc.Devices)) {
				t.Fatalf("%+v is booked as %+v, before %+v", alloc, booked[alloc.Node].Guests, before)
			}
			Release(booked, one, func(NodeIndex) []Stay { return nil })
			if booked[alloc.Node].Guests != before {
				t.Fatalf("after its end guests have %+v, before %+v", booked[alloc.Node].Guests, before)
			}
		}
	}
	if t.Logf("%d fit, %d are kept away", fitted, kept); fitted < 1000 || kept < 500 {
		t.Error("the requests are too tame")
	}
}
