package sched

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// crowd is a cluster on which jobs of several QOS run, from a seed.
func crowd(seed uint64, nodes, running int) (*rand.Rand, *Snapshot) {
	random := rand.New(rand.NewPCG(seed, 11))
	s := &Snapshot{
		NowMS: 1_000_000_000,
		TRES:  []string{TRESBilling, TRESCPU, TRESGPU, TRESModel + "h200", TRESMemory, TRESNode},
		QOS: []QOS{
			{Name: "low", Limits: NoLimits()},
			{Name: "mid", Preempts: []int{0}, Limits: NoLimits()},
			{Name: "high", Preempts: []int{0, 1}, Limits: NoLimits()},
		},
		Preemption: PreemptionPolicy{Type: PreemptByQOS, Mode: PreemptRequeue},
		Partitions: []Partition{{Name: "main", Up: true, MaxTimeS: Unlimited, QOS: -1}},
	}
	for i := range nodes {
		cpus := place.FirstCPUs(4)
		n := place.Node{Name: fmt.Sprintf("n%03d", i), Available: random.IntN(12) > 0, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 4 << 30, FreeMemory: 4 << 30}
		for d := range random.IntN(5) {
			n.Devices = append(n.Devices, place.Device{Index: uint32(d), Model: "h200", Healthy: random.IntN(15) > 0, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
		}
		s.Nodes = append(s.Nodes, n)
		s.Partitions[0].Nodes = append(s.Partitions[0].Nodes, place.NodeIndex(i))
	}
	for i := range running {
		runOne(random, s, JobID(i+1))
	}
	return random, s
}

func someRequest(random *rand.Rand) place.Request {
	r := place.Request{
		CPUsPerTask: 1 + random.Uint32N(3), MemoryPerCPU: 1 << 28, Exclusive: random.IntN(10) == 0,
		User: random.Uint32N(3), ExclusiveUser: random.IntN(15) == 0,
	}
	switch random.IntN(4) {
	case 0:
		r.MinNodes, r.GPUsPerNode = 1+random.Uint32N(3), random.Uint32N(3)
	case 1:
		r.GPUsPerJob = 1 + random.Uint32N(5)
	default:
		r.GPUsPerNode = random.Uint32N(5)
	}
	return r
}

// runOne starts a job somewhere, if it fits.
func runOne(random *rand.Rand, s *Snapshot, id JobID) {
	r := someRequest(random)
	nodes := slices.Clone(s.Partitions[0].Nodes)
	random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	some := nodes[:1+random.IntN(len(nodes))]
	slices.Sort(some)
	placement, _, fits := place.Fit(s.Nodes, some, r)
	if !fits {
		return
	}
	place.Take(s.Nodes, placement, r.Exclusive)
	s.Running = append(s.Running, Running{
		ID: id, Placement: placement, Exclusive: r.Exclusive, Requeue: true, QOS: int32(random.IntN(3)),
		StartMS: s.NowMS - int64(random.IntN(4))*1000, LostGPUMS: int64(random.IntN(3)) * 1000, Ending: random.IntN(8) == 0,
	})
}

// rebuilt is the nodes from scratch, with only some of the jobs on them.
func rebuilt(s *Snapshot, stays func(r *Running) bool) []place.Node {
	nodes := make([]place.Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[i] = place.Idle(s.Nodes[i], false)
	}
	for i := range s.Running {
		if r := &s.Running[i]; stays(r) {
			place.Take(nodes, r.Placement, r.Exclusive)
		}
	}
	return nodes
}

// bruteForce looks at all sets of jobs that a job of QOS high may preempt, and
// answers the two best of those of which nobody can stay.
func bruteForce(s *Snapshot, request place.Request) (best, next *option, needless bool) {
	var can []*Running
	for i := range s.Running {
		if r := &s.Running[i]; !r.Ending && r.QOS < 2 {
			can = append(can, r)
		}
	}
	fits := func(mask int) (place.Placement, bool) {
		nodes := rebuilt(s, func(r *Running) bool {
			at := slices.Index(can, r)
			return !r.Ending && (at < 0 || mask>>at&1 == 0)
		})
		placement, _, ok := place.Fit(nodes, s.Partitions[0].Nodes, request)
		return placement, ok
	}
	if _, ok := fits(0); ok {
		return nil, nil, true
	}
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
				ok = false
				break
			}
			units := int64(0)
			for _, alloc := range r.Placement.Allocs {
				units += int64(len(alloc.Devices))
			}
			if units == 0 {
				for _, alloc := range r.Placement.Allocs {
					units += int64(alloc.CPUs.Count())
				}
			}
			o.ids = append(o.ids, r.ID)
			o.cost += (s.NowMS-r.StartMS)*units + r.LostGPUMS
			for _, alloc := range r.Placement.Allocs {
				if !slices.ContainsFunc(placement.Allocs, func(p place.Alloc) bool { return p.Node == alloc.Node }) {
					o.excess++
				}
			}
		}
		switch {
		case !ok:
		case best == nil || compareOptions(o, best) < 0:
			best, next = o, best
		case next == nil || compareOptions(o, next) < 0:
			next = o
		}
	}
	return best, next, false
}

func victimSearchFor(s *Snapshot, request place.Request) *victimSearch {
	s.Shapes = []Shape{{Partitions: []int{0}, Request: request}}
	s.Waiting = []Job{{ID: 1000, Tasks: 1, QOS: 2}}
	p := newPass(s, Memo{})
	p.room = newRoom(p)
	return p.newVictimSearch(entry{id: 1000}, &s.Shapes[0].Request, s.Partitions[0].Nodes, false)
}

// TestVictimsAgainstBruteForce: on small clusters the choice is the best there
// is, and so is the next one.
func TestVictimsAgainstBruteForce(t *testing.T) {
	chosen, gangs, alternatives := 0, 0, 0
	for seed := range uint64(3000) {
		random, s := crowd(seed, 1+int(seed%4), 9)
		request := someRequest(random)
		best, next, needless := bruteForce(s, request)
		if needless {
			continue
		}
		g := victimSearchFor(s, request)
		g.search()
		same := func(what string, got, want *option) {
			t.Helper()
			if (got == nil) != (want == nil) || got != nil && compareOptions(got, want) != 0 {
				t.Fatalf("seed %d: %s is %+v, and should be %+v\nrequest %+v", seed, what, got, want, request)
			}
		}
		same("the choice", g.best, best)
		same("the next best", g.next, next)
		if best == nil {
			continue
		}
		chosen++
		if request.MinNodes > 1 {
			gangs++
		}
		if next != nil {
			alternatives++
		}
	}
	t.Logf("%d choices, %d for gangs, %d with an alternative", chosen, gangs, alternatives)
	if chosen < 300 || gangs < 50 || alternatives < 100 {
		t.Error("the clusters are too tame")
	}
}

// TestCheapChoices: where not all sets are looked at, the choice suffices,
// nobody in it could stay, and it is not far from the best.
func TestCheapChoices(t *testing.T) {
	chosen, exact := 0, 0
	for seed := range uint64(2000) {
		random, s := crowd(seed, 1+int(seed%5), 9)
		request := someRequest(random)
		best, _, needless := bruteForce(s, request)
		if needless || best == nil {
			continue
		}
		g := victimSearchFor(s, request)
		g.searchCheaply()
		if g.best == nil {
			t.Fatalf("seed %d: nobody is chosen, though %v would do", seed, best.ids)
		}
		for _, o := range []*option{g.best, g.next} {
			if o == nil {
				continue
			}
			checkSuffices(t, s, request, o)
			if compareOptions(o, best) < 0 {
				t.Fatalf("seed %d: %v is better than the best, %v", seed, o.ids, best.ids)
			}
		}
		chosen++
		if compareOptions(g.best, best) == 0 {
			exact++
		}
	}
	t.Logf("%d choices, %d of them the best", chosen, exact)
	if exact < chosen*3/4 {
		t.Error("the rules choose badly")
	}
}

// checkSuffices: the job fits where it is said to when these are gone, and not
// if any of them stays.
func checkSuffices(t *testing.T, s *Snapshot, request place.Request, o *option) {
	t.Helper()
	gone := func(id JobID) bool { return slices.Contains(o.ids, id) }
	nodes := rebuilt(s, func(r *Running) bool { return !r.Ending && !gone(r.ID) })
	for _, alloc := range o.placement.Allocs {
		n := &nodes[alloc.Node]
		if !n.Available || n.Exclusive || request.Exclusive && n.Busy || !alloc.CPUs.Minus(n.FreeCPUs).Empty() || alloc.MemoryBytes > n.FreeMemory {
			t.Fatalf("without %v there is no room on %s", o.ids, n.Name)
		}
		for _, grant := range alloc.Devices {
			if d := &n.Devices[grant.Device]; d.FreeShares < grant.Shares || !d.Healthy {
				t.Fatalf("without %v device %d of %s is not free", o.ids, grant.Device, n.Name)
			}
		}
	}
	for _, id := range o.ids {
		nodes := rebuilt(s, func(r *Running) bool { return !r.Ending && (!gone(r.ID) || r.ID == id) })
		if _, _, fits := place.Fit(nodes, s.Partitions[0].Nodes, request); fits {
			t.Fatalf("of %v job %d could stay", o.ids, id)
		}
	}
}

func TestReleaseUndoesTake(t *testing.T) {
	for seed := range uint64(300) {
		_, s := crowd(seed, 4, 8)
		nodes := slices.Clone(s.Nodes)
		on, gone := make(occupants, len(nodes)), make([]bool, len(s.Running))
		for i := range s.Running {
			on.add(i, s.Running[i].Placement, s.Running[i].Exclusive)
		}
		for i := range s.Running {
			gone[i] = true
			place.Release(nodes, s.Running[i].Placement, on.without(&absent{gone: gone}))
			if want := rebuilt(s, func(r *Running) bool { return slices.Index(idsOf(s.Running[:i+1]), r.ID) < 0 }); !reflect.DeepEqual(nodes, want) {
				t.Fatalf("seed %d: after %d jobs are gone:\n%+v\n%+v", seed, i+1, nodes, want)
			}
		}
	}
}

func idsOf(running []Running) []JobID {
	ids := make([]JobID, len(running))
	for i := range running {
		ids[i] = running[i].ID
	}
	return ids
}

func TestCircles(t *testing.T) {
	qos := []QOS{{Preempts: []int{1}}, {Preempts: []int{2, 9, -1}}, {Preempts: []int{0}}, {Preempts: []int{0}}, {Preempts: []int{4, 3}}}
	c := circles(qos)
	if c[0] != c[1] || c[1] != c[2] || c[3] == c[0] || c[4] == c[3] || c[4] == c[0] {
		t.Errorf("circles are %v", c)
	}
}

// TestSearchIsUsedAgain: the search for the next task of an array, which continues
// from the last one, finds what a new one finds.
func TestSearchIsUsedAgain(t *testing.T) {
	again := 0
	for seed := range uint64(2000) {
		random, s := crowd(seed, 2+int(seed%5), 14)
		s.Shapes = []Shape{{Partitions: []int{0}, Request: someRequest(random)}}
		s.Waiting = []Job{{ID: 1000, Tasks: 9, QOS: 2, Association: -1}}
		p, e := newPass(s, Memo{}), entry{id: 1000}
		p.room = newRoom(p)
		for task := 0; p.mayMakeRoom(e); task++ {
			shape, index, _ := p.at(e)
			fresh := p.newVictimSearch(e, &shape.Request, p.roomIn(e, index), false)
			fresh.search()
			g := p.victimSearchFor(e, false)
			g.search()
			for _, pair := range [][2]*option{{g.best, fresh.best}, {g.next, fresh.next}} {
				if (pair[0] == nil) != (pair[1] == nil) || pair[0] != nil && compareOptions(pair[0], pair[1]) != 0 {
					t.Fatalf("seed %d, task %d: %+v, a new search finds %+v", seed, task, pair[0], pair[1])
				}
			}
			if g.best == nil {
				break
			}
			again += min(task, 1)
			p.promise(&way{entry: e, placement: g.best.placement, victims: g.best.victims, choice: &Choice{For: 1000}})
		}
	}
	t.Logf("%d times", again)
	if again < 300 {
		t.Error("hardly ever is there a second task")
	}
}
