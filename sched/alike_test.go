package sched

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestShapesAreDecidedOnce: the reasons of a pass that decides a shape once are those of
// one that decides each job by itself, and so are its starts and its planned starts.
func TestShapesAreDecidedOnce(t *testing.T) {
	alike := 0
	for seed := range uint64(600) {
		w := newWorld(seed, 1+int(seed%12), 20+int(seed%200))
		s := w.snapshot
		if seed%2 == 0 {
			s.Preemption, s.Licenses, s.Accounting = PreemptionPolicy{}, nil, AccountingPolicy{}
			s.Waiting, s.Running = slices.Clone(s.Waiting), slices.Clone(s.Running)
			for i := range s.Running {
				s.Running[i].Licenses = nil
			}
			for i := range s.Waiting {
				s.Waiting[i].Licenses = nil
			}
		}
		s.Backfill = BackfillPolicy{On: seed%3 > 0, PartJobs: uint32(seed % 4), MaxJobs: uint32(seed % 5)}
		s, _ = expandShapes(s)
		s = withOwnParts(s)
		for range 3 { // the second and third with what the one before has planned
			one, each := newPass(&s, Memo{}), newPass(&s, Memo{})
			each.alike = false
			one.run(newPriorities(&s))
			each.run(newPriorities(&s))
			if one.alike {
				alike++
			}
			if !reflect.DeepEqual(one.reasons, each.reasons) || !reflect.DeepEqual(one.starts, each.starts) || !reflect.DeepEqual(one.promises(&s.Promises), each.promises(&s.Promises)) {
				t.Fatalf("seed %d: %+v\neach by itself: %+v", seed, one.reasons, each.reasons)
			}
			s.Promises = one.promises(&s.Promises)
		}
	}
	if alike < 600 {
		t.Fatalf("shapes were decided once in %d passes only", alike)
	}
}

// TestOrderIsSorted: counting sorts as comparing does.
func TestOrderIsSorted(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		entries := make([]entry, random.IntN(300))
		for i := range entries {
			entries[i] = entry{
				tier: uint64(random.IntN(3)) << (16 * random.IntN(3)), priority: random.Uint32() >> random.IntN(32),
				id: JobID(1 + i/2), choice: int32(i % 2), job: int32(i / 2),
			}
		}
		tiers := make([]uint64, len(entries))
		for i := range entries {
			tiers[i] = entries[i].tier
		}
		slices.Sort(tiers)
		tiers = slices.Compact(tiers)
		if seed%4 == 0 { // in any order
			random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		}
		want := slices.SortedFunc(slices.Values(entries), func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id), cmp.Compare(a.choice, b.choice))
		})
		p, keys := &pass{scratch: new(scratch), ascending: seed%4 != 0}, make([]uint64, len(entries))
		for i := range entries {
			rank := 0
			for _, other := range tiers {
				if other > entries[i].tier {
					rank++
				}
			}
			keys[i] = uint64(rank)<<32 | uint64(^entries[i].priority)
		}
		if got := p.sorted(slices.Clone(entries), keys); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, not %v", seed, got, want)
		}
	}
}
