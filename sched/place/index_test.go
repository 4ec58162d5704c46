package place

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// alikeNodes is a cluster of a few kinds of node, some of it in use.
func alikeNodes(random *rand.Rand, count int) []Node {
	models := randomNodes(random, 1+random.IntN(4))
	nodes := make([]Node, count)
	for i := range nodes {
		nodes[i] = models[random.IntN(len(models))]
		nodes[i].Name = fmt.Sprintf("n%d", i)
		nodes[i].Wired, nodes[i].Above = false, nil
		if random.IntN(6) == 0 {
			nodes[i].Devices = slices.Clone(nodes[i].Devices)
			for d := range nodes[i].Devices {
				nodes[i].Devices[d].Kept = random.IntN(3) == 0
			}
		}
		if random.IntN(8) == 0 {
			g := Guests{Bound: true, GPUs: random.Uint32N(4), MemoryBytes: uint64(random.IntN(4)) << 30}
			g.FreeGPUs, g.FreeBytes = g.GPUs, g.MemoryBytes
			nodes[i].Guests = g
		}
	}
	return nodes
}

// less is what is left of a node of which some is hidden, as by what is planned on it.
func less(random *rand.Rand, n Node) Room {
	room := n.Room(0)
	for kind := range room {
		if room[kind] > 0 && kind != RoomJobs {
			room[kind] = random.Int64N(room[kind] + 1)
		}
	}
	return room
}

// TestIndexEqualsScan: among the candidates that the index leaves, Find finds what it finds
// among all nodes, while jobs take from them, some nodes are not in the index and of others
// less is free than they say.
func TestIndexEqualsScan(t *testing.T) {
	narrowed, found, fewer, roomless := 0, 0, 0, 0
	for seed := range uint64(1200) {
		random := rand.New(rand.NewPCG(seed, 31))
		nodes := alikeNodes(random, 2+random.IntN(60))
		var in []NodeIndex
		for i := range nodes {
			if random.IntN(8) > 0 {
				in = append(in, NodeIndex(i))
			}
		}
		kinds := NewKinds(nodes)
		x, other := kinds.NewIndex(in), kinds.NewIndex(in[:len(in)/2])
		apart := map[NodeIndex]Room{}
		for step := range 25 {
			r := randomRequest(random, nodes)
			r.Switches = 0
			for i := range nodes {
				if random.IntN(4) == 0 && seed%3 == 0 {
					r.GuestOn = append(r.GuestOn, nodes[i].Name)
				}
			}
			slices.Sort(r.GuestOn)
			if !x.Narrows(&r) {
				continue
			}
			narrowed++
			least := r.Least()
			candidates, own := x.Narrow(&r, func(node NodeIndex) bool {
				for kind, amount := range nodes[node].RoomFor(&r, &least, nil) {
					if !r.Exclusive && amount > max(apart[node][kind], 0) {
						roomless++
						return false
					}
				}
				return true
			})
			if !slices.IsSorted(candidates) {
				t.Fatalf("seed %d step %d: candidates %v", seed, step, candidates)
			}
			seen := slices.Clone(nodes)
			for node, room := range apart {
				seen[node] = nodes[node].Within(room, r.Exclusive)
				if slices.Contains(candidates, node) && !slices.Contains(own, node) {
					t.Fatalf("seed %d step %d: node %d was set apart, and the index does not say so", seed, step, node)
				}
			}
			want, fits := Find(seen, in, r)
			got, is := Find(seen, candidates, r)
			if fits != is || !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d step %d: %+v\namong all: %v %+v\namong %v: %v %+v", seed, step, r, fits, want, candidates, is, got)
			}
			if len(candidates) < len(in) {
				fewer++
			}
			switch {
			case fits && len(apart) == 0 && random.IntN(3) > 0:
				found++
				Take(nodes, got, r.Exclusive)
				for _, alloc := range got.Allocs {
					changed := kinds.Change(alloc.Node)
					x.Move(changed)
					other.Move(changed)
				}
			case random.IntN(8) == 0:
				node := NodeIndex(random.IntN(len(nodes)))
				x.SetApart(node)
				if slices.Contains(in, node) {
					apart[node] = less(random, nodes[node])
				}
			}
		}
		if again := kinds.NewIndex(in[:len(in)/2]); !reflect.DeepEqual(membersOf(again), membersOf(other)) {
			t.Fatalf("seed %d: an index that followed has %v, a new one %v", seed, membersOf(other), membersOf(again))
		}
	}
	t.Logf("%d requests, %d of them with fewer candidates; %d placed; %d times no room on a node", narrowed, fewer, found, roomless)
	if fewer < narrowed/2 || found < 1500 || roomless < 1000 {
		t.Fatal("the index was hardly tried")
	}
}

// membersOf are the kinds that have nodes, by number, and their nodes.
func membersOf(x *Index) map[int32][]NodeIndex {
	all := map[int32][]NodeIndex{}
	for free := range x.byFree {
		for _, number := range x.byFree[free] {
			all[number] = x.members[number]
		}
	}
	return all
}
