package sched

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// ownedCrowd is a crowd on nodes of which some have an owner, or two, one below the
// other. Its jobs are guests, or an owner's.
func ownedCrowd(seed uint64, nodes, running int) (*rand.Rand, *Snapshot) {
	random, s := crowd(seed, nodes, running)
	s.addOwners(random)
	for i := range s.Running {
		r := &s.Running[i]
		r.Owner, r.Suspends, r.Parks, r.Requeue = max(0, int32(random.IntN(5))-2), random.IntN(6) > 0, random.IntN(4) > 0, random.IntN(4) > 0
	}
	return random, s
}

// addOwners gives some nodes to one account, and these and more to one below it.
func (s *Snapshot) addOwners(random *rand.Rand) {
	s.Owners = make([][]place.NodeIndex, 2)
	for i := range s.Nodes {
		switch at := place.NodeIndex(i); random.IntN(3) {
		case 0:
			s.Owners[0] = append(s.Owners[0], at)
			fallthrough
		case 1:
			s.Owners[1] = append(s.Owners[1], at)
		}
	}
}

// cleared is the nodes from scratch, with some jobs gone, or parked where they are guests
// of an owner.
func cleared(s *Snapshot, owner int32, leaves func(r *Running) bool) []place.Node {
	nodes := rebuilt(s, func(r *Running) bool { return !r.Ending && !leaves(r) })
	for i := range s.Running {
		r := &s.Running[i]
		if r.Ending || !leaves(r) || !r.Suspends {
			continue
		}
		for _, alloc := range r.Placement.Allocs {
			if slices.Contains(s.Owners[owner-1], alloc.Node) && (r.Owner == 0 || !slices.Contains(s.Owners[r.Owner-1], alloc.Node)) {
				nodes[alloc.Node].FreeMemory -= alloc.MemoryBytes
				nodes[alloc.Node].ParkedMemory += alloc.MemoryBytes
				continue
			}
			place.Take(nodes, place.Placement{Allocs: []place.Alloc{alloc}, User: r.Placement.User, UserOnly: r.Placement.UserOnly}, r.Exclusive)
		}
	}
	return nodes
}

// bestGuests looks at all sets of guests of an owner, and answers the two best of those
// without which a job fits on its nodes and of which nobody can stay.
func bestGuests(s *Snapshot, request place.Request, owner int32) (best, next *option, needless bool) {
	var can []*Running
	for i := range s.Running {
		r := &s.Running[i]
		guest := slices.ContainsFunc(r.Placement.Allocs, func(alloc place.Alloc) bool {
			return slices.Contains(s.Owners[owner-1], alloc.Node) && (r.Owner == 0 || !slices.Contains(s.Owners[r.Owner-1], alloc.Node))
		})
		if !r.Ending && guest && s.NowMS-r.StartMS >= int64(s.Preemption.GuestExemptTimeS)*1000 {
			can = append(can, r)
		}
	}
	fits := func(mask int) (place.Placement, bool) {
		nodes := cleared(s, owner, func(r *Running) bool { at := slices.Index(can, r); return at >= 0 && mask>>at&1 == 1 })
		placement, _, ok := place.Fit(nodes, s.Owners[owner-1], request)
		return placement, ok
	}
	if _, ok := fits(0); ok {
		return nil, nil, true
	}
sets:
	for mask := 1; mask < 1<<len(can); mask++ {
		placement, ok := fits(mask)
		if !ok {
			continue
		}
		o := &option{placement: placement}
		for i, r := range can {
			if mask>>i&1 == 0 {
				continue
			}
			if _, spare := fits(mask &^ (1 << i)); spare {
				continue sets
			}
			o.ids = append(o.ids, r.ID)
			o.cost += guestCost(s, r)
			for _, alloc := range r.Placement.Allocs {
				if !slices.ContainsFunc(placement.Allocs, func(p place.Alloc) bool { return p.Node == alloc.Node }) {
					o.excess++
				}
			}
		}
		switch {
		case best == nil || compareOptions(o, best) < 0:
			best, next = o, best
		case next == nil || compareOptions(o, next) < 0:
			next = o
		}
	}
	return best, next, false
}

// guestCost is as the README of the package says.
func guestCost(s *Snapshot, r *Running) int64 {
	gpus, cpus := int64(0), int64(0)
	for _, alloc := range r.Placement.Allocs {
		gpus, cpus = gpus+int64(len(alloc.Devices)), cpus+int64(alloc.CPUs.Count())
	}
	units := gpus
	if gpus == 0 {
		units = cpus
	}
	work, parking := (s.NowMS-r.StartMS)*units, 10_000*units
	switch {
	case r.Suspends && r.Parks && r.Requeue:
		return parking + r.LostGPUMS
	case r.Suspends && r.Parks:
		return parking + work/16 + r.LostGPUMS
	case !r.Requeue:
		return 2*work + r.LostGPUMS
	}
	return work + r.LostGPUMS
}

// TestGuestsAgainstBruteForce: the owner's job has those guests leave that lose least,
// on its own nodes, and the next best are right too.
func TestGuestsAgainstBruteForce(t *testing.T) {
	chosen, alternatives, modes := 0, 0, map[PreemptMode]int{}
	for seed := range uint64(3000) {
		random, s := ownedCrowd(seed, 2+int(seed%4), 9)
		s.Preemption = PreemptionPolicy{GuestExemptTimeS: uint32(seed % 2)}
		request := someRequest(random)
		if random.IntN(6) == 0 {
			request.MemoryPerCPU = 0 // all
		}
		owner := 1 + int32(seed/2%2)
		best, next, needless := bestGuests(s, request, owner)
		if needless || len(s.Owners[owner-1]) == 0 {
			continue
		}
		s.Shapes = []Shape{{Partitions: []int{0}, Request: request}}
		s.Waiting = []Job{{ID: 1000, Tasks: 1, QOS: 2, Owner: owner}}
		own := withOwnParts(*s)
		p := newPass(&own, Memo{})
		p.room = newRoom(p)
		e := entry{id: 1000, tier: ownTurn, choice: 1, shape: int32(own.Waiting[0].Shape)}
		shape, index, _ := p.at(e)
		g := p.newVictimSearch(e, &shape.Request, p.Partitions[index].Nodes, true)
		g.search()
		for _, pair := range [][2]*option{{g.best, best}, {g.next, next}} {
			if got, want := pair[0], pair[1]; (got == nil) != (want == nil) || got != nil && compareOptions(got, want) != 0 {
				t.Fatalf("seed %d: %+v, and should be %+v\nrequest %+v", seed, got, want, request)
			}
		}
		if best != nil {
			chosen++
			for _, v := range g.best.victims {
				modes[v.mode]++
			}
		}
		if next != nil {
			alternatives++
		}
	}
	t.Logf("%d choices, %d with an alternative, modes %v", chosen, alternatives, modes)
	if chosen < 200 || alternatives < 60 || modes[PreemptPark] < 100 || modes[PreemptCancel] == 0 || modes[PreemptRequeue] == 0 {
		t.Error("the clusters are too tame")
	}
}

// TestParkIsUndone: what a set of guests leaves is as if it were built from scratch, and
// afterwards all is as before.
func TestParkIsUndone(t *testing.T) {
	for seed := range uint64(300) {
		_, s := ownedCrowd(seed, 4, 8)
		s.Waiting, s.Shapes = []Job{{ID: 1000, Tasks: 1, Owner: 2}}, []Shape{{Partitions: []int{0}}}
		own := withOwnParts(*s)
		if len(own.Partitions) == 1 {
			continue
		}
		p := newPass(&own, Memo{})
		p.room = newRoom(p)
		g := p.newVictimSearch(entry{id: 1000, tier: ownTurn, choice: 1, shape: int32(own.Waiting[0].Shape)}, &own.Shapes[0].Request, own.Partitions[1].Nodes, true)
		for _, set := range [][]int{allOf(g.victims), allOf(g.victims)[:len(g.victims)/2]} {
			g.release(set)
			want := cleared(s, 2, func(r *Running) bool {
				return slices.ContainsFunc(set, func(v int) bool { return g.victims[v].id == r.ID })
			})
			for _, node := range own.Partitions[1].Nodes {
				if !sameFree(g.work[node], want[node]) {
					t.Fatalf("seed %d: without %v:\n%+v\n%+v", seed, set, g.work[node], want[node])
				}
			}
			for _, v := range set {
				g.putBack(v)
			}
			for node := range g.nodes {
				if !sameFree(g.work[node], g.nodes[node]) {
					t.Fatalf("seed %d: afterwards:\n%+v\n%+v", seed, g.work[node], g.nodes[node])
				}
			}
			g.undo(set)
		}
	}
}

func sameFree(a, b place.Node) bool {
	return a.FreeCPUs.Equal(b.FreeCPUs) && a.FreeMemory == b.FreeMemory && a.ParkedMemory == b.ParkedMemory && a.Busy == b.Busy && a.Exclusive == b.Exclusive &&
		slices.Equal(a.Users, b.Users) && slices.EqualFunc(a.Devices, b.Devices, func(a, b place.Device) bool { return a.FreeShares == b.FreeShares })
}
