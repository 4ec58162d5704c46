package ordered

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// usualDays see between them what the end of TestSeeds asks for, as a rule more than one
// of them. On the last two, owners reclaim their nodes.
var usualDays = []uint64{3, 10, 17, 18, 45, 53}

// TestSeeds runs some simulated days; make soak and make sim run more.
func TestSeeds(t *testing.T) {
	days := slices.Clone(usualDays)
	for seed := range prototest.Soak[uint64](0, 200) {
		if !slices.Contains(days, seed) {
			days = append(days, seed)
		}
	}
	var mu sync.Mutex
	waited, saves := map[string]int{}, SaveCounts{}
	reclaimed, parked, killed := 0, 0, 0
	t.Run("days", func(t *testing.T) {
		for _, seed := range days {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := Run(Options{Seed: seed})
				if r.Failure != nil {
					t.Fatalf("after %v: %v\n%s\nreplay: make sim SEED=%d", r.Failure.At, r.Failure, strings.Join(r.Last, ""), seed)
				}
				faults := 0
				for _, n := range r.Faults {
					faults += n
				}
				if faults < 10 || r.Accepted < 100 || r.Finished < r.Accepted || r.Saves < 10 || r.Suspended == 0 {
					t.Errorf("a quiet day proves nothing: %+v", r.Counts)
				}
				mu.Lock()
				defer mu.Unlock()
				saves.Add(&r.SaveCounts)
				reclaimed, parked, killed = reclaimed+r.Reclaimed, parked+r.Parked, killed+r.Killed
				for word, n := range r.Waited {
					waited[word] += n
				}
			})
		}
	})
	if saves.Moved == 0 || saves.Leaving == 0 || saves.Repeated == 0 || saves.RestoresFailed == 0 || saves.Dropped == 0 || saves.Older == 0 || saves.Undone == 0 || saves.GangsLeft == 0 || saves.GangsSent == 0 {
		t.Errorf("too little of what can happen to images: %+v", saves)
	}
	if reclaimed == 0 || parked == 0 || killed == 0 {
		t.Errorf("too little of what owners do: %d nodes reclaimed, %d allocations parked, %d killed", reclaimed, parked, killed)
	}
	for _, word := range []string{"ImageNotRestorable", "Dependency", "BeginTime", "Licenses", "JobArrayTaskLimit", "AssocGrpGRES", "QOSMaxJobsPerUserLimit"} {
		if waited[word] == 0 {
			t.Errorf("nobody was ever told that a job waits for %s: %v", word, waited)
		}
	}
}

// TestHoles runs a day on which jobs that can be saved start in holes of the plan: nothing
// is lost, and nothing runs twice, there either.
func TestHoles(t *testing.T) {
	filled, left := 0, 0
	for _, seed := range prototest.Soak([]uint64{19}, []uint64{0, 3, 7, 12, 19, 4, 5, 6, 8, 9}) {
		r := Run(Options{Seed: seed, Holes: true})
		if r.Failure != nil {
			t.Fatalf("after %v: %v\n%s\nreplay: make sim SEED=%d SIMFLAGS=-holes", r.Failure.At, r.Failure, strings.Join(r.Last, ""), seed)
		}
		filled, left = filled+r.Filled, left+r.Leaving
	}
	t.Logf("%d jobs started in holes, %d were saved to make room", filled, left)
	if filled < 15 || left < 5 {
		t.Errorf("%d jobs started in holes, and %d were saved to make room: the day proves nothing", filled, left)
	}
}

// TestSameSeedSameLines: a seed replays byte for byte.
func TestSameSeedSameLines(t *testing.T) {
	hours := prototest.Soak(3.0, 24)
	day := func() (string, Result) {
		var lines bytes.Buffer
		r := Run(Options{Seed: 45, Hours: hours, Trace: &lines}) // a day with owners
		return lines.String(), r
	}
	first, a := day()
	second, b := day()
	if first != second || a.Digest != b.Digest || a.Steps != b.Steps {
		t.Fatalf("one seed, two days: %s and %s", a.Digest, b.Digest)
	}
	if other := Run(Options{Seed: 8, Hours: 1}); other.Digest == a.Digest {
		t.Error("another seed is the same day")
	}
}

// TestCheckersNoticeBrokenModels: see package broken for what is broken in the
// real code.
func TestCheckersNoticeBrokenModels(t *testing.T) {
	for name, fault := range map[string]struct {
		Broken
		from uint64 // the first day: some are noticed only on one of many
	}{
		"a controller never confirms that it leads":            {Broken{NeverConfirms: true}, 188},
		"a node says too early that an allocation is saved":    {Broken{Broken: node.Broken{SavedEarly: true}}, 0},
		"an allocation that is not restored runs all the same": {Broken{Broken: node.Broken{RunsAnyway: true}}, 1},
		"an image has its node's names for devices":            {Broken{Broken: node.Broken{NamesItsOwn: true}}, 2},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			const most = 60
			for seed := fault.from; seed < fault.from+most; seed++ {
				if r := Run(Options{Seed: seed, Broken: fault.Broken}); r.Failure != nil {
					t.Logf("seed %d: %v", seed, strings.SplitN(r.Failure.Error(), "\n", 2)[0])
					return
				}
			}
			t.Errorf("nobody noticed in %d days", most)
		})
	}
}

// TestHourWithoutControllers: owners take nodes back before, while and after every
// controller is away for the better part of an hour. Their promises are kept on the nodes,
// and nothing is lost or runs twice.
func TestHourWithoutControllers(t *testing.T) {
	const hours = 6
	away := func(f Fault) bool { return f.Kind == "all controllers are away" && f.For >= 50*time.Minute }
	for seed := uint64(0); ; seed++ {
		if !hasOwners(seed) {
			continue
		}
		day := hours * time.Hour
		faults := planHunts(seed, planFaults(rand.New(rand.NewPCG(seed, 2)), hours*5, 10*time.Minute, day), day)
		faults = planOwners(seed, planReclaims(seed, faults, day), day)
		at := slices.IndexFunc(faults, away)
		if at < 0 {
			continue
		}
		var only []int
		before, during, after := 0, 0, 0
		for _, f := range faults {
			switch {
			case f.Number == faults[at].Number:
			case f.Kind != "owner reclaims on the node" && f.Kind != "owner is seen on the node" && f.Kind != "owner reclaims a node":
				continue
			case f.At < faults[at].At && f.At+f.For > faults[at].At:
				before++
			case f.At >= faults[at].At && f.At < faults[at].At+faults[at].For:
				during++
			case f.At >= faults[at].At:
				after++
			}
			only = append(only, f.Number)
		}
		if before == 0 || during < 3 || after == 0 {
			continue
		}
		r := Run(Options{Seed: seed, Hours: hours, Only: only})
		if r.Failure != nil {
			t.Fatalf("seed %d: after %v: %v\n%s", seed, r.Failure.At, r.Failure, strings.Join(r.Last, ""))
		}
		t.Logf("seed %d: away for %v; %d reclaims before, %d meanwhile, %d after; %d on nodes, %d guests parked", seed, faults[at].For, before, during, after, r.OnNode, r.Parked)
		if r.OnNode == 0 || r.Parked == 0 {
			t.Error("the day proves nothing")
		}
		return
	}
}
