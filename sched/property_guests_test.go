package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// addGuests bounds what guests have on some nodes of every third world. Some shapes are
// their owner's, the others guests there.
func (w *world) addGuests(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 13))
	if seed%3 > 0 {
		return
	}
	var bound []string
	for i := range w.snapshot.Nodes {
		n := &w.snapshot.Nodes[i]
		if random.IntN(2) == 0 {
			continue
		}
		bound = append(bound, n.Name)
		n.Guests = place.Guests{Bound: true, GPUs: random.Uint32N(5), MemoryBytes: n.MemoryBytes / 2, TmpBytes: n.TmpBytes}
		n.Guests.FreeGPUs, n.Guests.FreeBytes, n.Guests.FreeTmp = random.Uint32N(n.Guests.GPUs+1), n.Guests.MemoryBytes, n.Guests.TmpBytes
	}
	for i := range w.snapshot.Shapes {
		if random.IntN(3) > 0 {
			w.snapshot.Shapes[i].Request.GuestOn = bound
		}
	}
}

// checkGuests: guests get no more on a node than they may have there together.
func checkGuests(t *testing.T, n *place.Node, alloc place.Alloc, r *place.Request) {
	t.Helper()
	if alloc.Guest != (n.Guests.Bound && len(r.GuestOn) > 0) {
		t.Fatalf("on node %s a job is a guest: %v; it is one on %v", n.Name, alloc.Guest, r.GuestOn)
	}
	if alloc.Guest && (len(alloc.Devices) > int(n.Guests.FreeGPUs) || alloc.MemoryBytes > n.Guests.FreeBytes) {
		t.Fatalf("a guest gets %+v of node %s, where guests may have %+v", alloc, n.Name, n.Guests)
	}
}
