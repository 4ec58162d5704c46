package sched

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// world is a random cluster from a seed.
type world struct {
	random   *rand.Rand
	snapshot Snapshot
}

func newWorld(seed uint64, nodes, jobs int) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7))}
	for i := range nodes {
		w.snapshot.Nodes = append(w.snapshot.Nodes, w.node(i))
	}
	for i := range 1 + w.random.IntN(3) {
		p := Partition{Name: fmt.Sprintf("p%d", i), Up: w.random.IntN(8) > 0, MaxTimeS: 3600 << w.random.IntN(4), PriorityTier: w.random.Uint32N(2), RootAllowed: w.random.IntN(2) > 0}
		for n := range nodes {
			if i == 0 || w.random.IntN(2) == 0 {
				p.Nodes = append(p.Nodes, place.NodeIndex(n))
			}
		}
		w.snapshot.Partitions = append(w.snapshot.Partitions, p)
	}
	w.wire()
	for range 1 + w.random.IntN(12) {
		w.snapshot.Shapes = append(w.snapshot.Shapes, w.shape())
	}
	w.snapshot.NowMS = 1_700_000_000_000
	for i := range jobs {
		w.snapshot.Waiting = append(w.snapshot.Waiting, Job{
			BeginMS:    w.snapshot.NowMS + int64(w.random.IntN(20)-18)*1000,
			DeadlineMS: int64(w.random.IntN(8)/7) * (w.snapshot.NowMS + int64(3600<<w.random.IntN(4))*1000),
			Dependency: Dependency(max(0, w.random.IntN(20)-17)),
			ID:         JobID(i + 1), Shape: w.random.IntN(len(w.snapshot.Shapes)), FixedPriority: 1 + w.random.Uint32N(5),
			Held: Hold(max(0, w.random.IntN(20)-16)), Tasks: w.random.Uint32N(4), Throttled: w.random.IntN(3) == 0,
			UID: 1 + w.random.Uint32N(3), AgeMS: w.random.Int64N(2) * 60_000,
		})
	}
	w.addLimits(seed)
	w.addGuests(seed)
	networks := rand.New(rand.NewPCG(seed, 11))
	for i := range w.snapshot.Partitions {
		w.snapshot.Partitions[i].PrivateOnly = networks.IntN(8) == 0
	}
	for i := range w.snapshot.Shapes {
		w.snapshot.Shapes[i].PrivateNetwork = networks.IntN(4) > 0
	}
	return w
}

func (w *world) node(i int) place.Node {
	cpus := place.FirstCPUs(4 + w.random.Uint32N(12))
	n := place.Node{
		Name: fmt.Sprintf("n%03d", i), Available: w.random.IntN(8) > 0, CPUs: cpus, FreeCPUs: cpus,
		MemoryBytes: 16 << 30, FreeMemory: 16 << 30,
	}
	model := []string{"a100", "h200"}[w.random.IntN(2)]
	for d := range w.random.IntN(9) {
		if w.random.IntN(20) == 0 {
			model = "v100"
		}
		n.Devices = append(n.Devices, place.Device{
			Index: uint32(d), Model: model, Healthy: w.random.IntN(20) > 0,
			Parent: place.WholeDevice, Shares: 1, FreeShares: 1, Links: []place.DeviceIndex{place.DeviceIndex(d ^ 1)},
		})
	}
	if w.random.IntN(3) == 0 {
		n.Features = []string{"ib"}
	}
	if w.random.IntN(4) == 0 {
		nodes := []place.Node{n}
		p, _, fits := place.Fit(nodes, []place.NodeIndex{0}, place.Request{CPUsPerTask: 2, MemoryPerCPU: 1 << 30, GPUsPerNode: w.random.Uint32N(3)})
		if fits {
			place.Take(nodes, p, false)
		}
		n = nodes[0]
	}
	return n
}

func (w *world) shape() Shape {
	s := Shape{TimeLimitS: 3600 << w.random.IntN(4), Root: w.random.IntN(10) == 0}
	for i := range w.snapshot.Partitions {
		if w.random.IntN(2) == 0 {
			s.Partitions = append(s.Partitions, i)
		}
	}
	if len(s.Partitions) == 0 && w.random.IntN(5) > 0 {
		s.Partitions = []int{0}
	}
	pick := func(most uint32) uint32 { return w.random.Uint32N(2) * w.random.Uint32N(most) }
	s.Request = place.Request{
		MinNodes: pick(4), Tasks: pick(20), TasksPerNode: pick(4), CPUsPerTask: pick(4),
		GPUsPerNode: pick(8), GPUsPerJob: pick(3) * pick(9), MemoryPerCPU: 1 << 30, Exclusive: w.random.IntN(12) == 0,
	}
	if w.random.IntN(4) == 0 {
		s.Request.Model = "a100"
	}
	if w.random.IntN(6) == 0 {
		s.Request.RequiredNodes = []string{fmt.Sprintf("n%03d", w.random.IntN(len(w.snapshot.Nodes)+1))}
	}
	w.vary(&s)
	return s
}

// checkPlan says what must never happen, and does not.
func checkPlan(t *testing.T, s *Snapshot, plan Plan) {
	t.Helper()
	jobs := make(map[JobID]Job)
	for _, job := range s.Waiting {
		jobs[job.ID] = job
	}
	started := make(map[JobID]uint32)
	free := place.Wire(slices.Clone(s.Nodes), s.Switches)
	for _, start := range plan.Starts {
		job, shape := jobs[start.Job], s.Shapes[jobs[start.Job].Shape]
		started[start.Job]++
		checkRules(t, s, job, shape, start)
		shape = *s.Partitions[start.Partition].shaped(&shape)
		checkPlacement(t, free, job, shape, start)
		for _, alloc := range start.Placement.Allocs {
			n := &free[alloc.Node]
			if !slices.Contains(s.Partitions[start.Partition].Nodes, alloc.Node) || !n.Available || n.Exclusive || shape.Request.Exclusive && n.Busy {
				t.Fatalf("job %d on node %s, which is not for it", start.Job, n.Name)
			}
			if !alloc.CPUs.Minus(n.FreeCPUs).Empty() || alloc.MemoryBytes > n.FreeMemory {
				t.Fatalf("job %d gets more of node %s than is free", start.Job, n.Name)
			}
			checkGuests(t, n, alloc, &shape.Request)
			for _, grant := range alloc.Devices {
				if d := n.Devices[grant.Device]; grant.Shares > d.FreeShares || !d.Healthy {
					t.Fatalf("device %d of node %s is given twice or broken", grant.Device, n.Name)
				}
			}
		}
		place.Take(free, start.Placement, shape.Request.Exclusive)
	}
	checkReasons(t, s, plan, started)
	due := func(job Job) bool {
		return job.BeginMS == plan.NextMS || s.NowMS+int64(s.Shapes[job.Shape].SwitchesWaitS)*1000-job.AgeMS == plan.NextMS
	}
	guestDue := len(s.Owners) > 0 && (plan.NextMS == s.NowMS+1 || slices.ContainsFunc(s.Running, func(r Running) bool { return s.GuestEligibleMS(&r) == plan.NextMS }))
	fillDue := slices.ContainsFunc(plan.Promises.Planned, func(p Planned) bool { return p.StartMS > plan.NextMS+leaveEarlyMS })
	opens := slices.ContainsFunc(plan.Promises.Planned, func(p Planned) bool { return p.StartMS == plan.NextMS })
	leaves := slices.ContainsFunc(s.Running, func(r Running) bool { return r.LeavesByMS == plan.NextMS })
	if plan.NextMS != 0 && (plan.NextMS <= s.NowMS || !leaves && !guestDue && !fillDue && !opens && !slices.ContainsFunc(s.Waiting, due)) {
		t.Fatalf("the next pass is due at %d, when no job may begin, has waited long enough for its switches or has to make room", plan.NextMS)
	}
	checkLimits(t, s, plan)
}

func checkRules(t *testing.T, s *Snapshot, job Job, shape Shape, start Start) {
	t.Helper()
	p := s.Partitions[start.Partition]
	if job.Held != NotHeld || !p.Up || shape.leastS() > p.MaxTimeS || shape.Root && !p.RootAllowed || p.PrivateOnly && !shape.PrivateNetwork || !slices.Contains(shape.Partitions, start.Partition) {
		t.Fatalf("job %+v starts in partition %+v", job, p)
	}
	if job.BeginMS > s.NowMS || job.Dependency != NoDependency || job.DeadlineMS != 0 && s.NowMS+int64(shape.leastS())*1000 > job.DeadlineMS {
		t.Fatalf("job %+v starts before its time, or too late", job)
	}
	r := shape.Request
	low, high := r.NodeBounds()
	if n := uint32(len(start.Placement.Allocs)); n < low || n > high {
		t.Fatalf("job %d is split: %d nodes, not %d to %d", job.ID, n, low, high)
	}
	model, tasks, gpus := "", uint32(0), uint32(0)
	for _, alloc := range start.Placement.Allocs {
		tasks += alloc.Tasks
		gpus += uint32(len(alloc.Devices))
		for _, grant := range alloc.Devices {
			d := s.Nodes[alloc.Node].Devices[grant.Device]
			if model != "" && d.Model != model || r.Model != "" && d.Model != r.Model {
				t.Fatalf("job %d gets models %s and %s", job.ID, model, d.Model)
			}
			model = d.Model
		}
	}
	if r.Tasks > 0 && tasks != r.Tasks || gpus < r.GPUsPerJob || gpus < r.GPUsPerNode*uint32(len(start.Placement.Allocs)) {
		t.Fatalf("job %d has %d tasks and %d devices", job.ID, tasks, gpus)
	}
}

// checkReasons: every task either starts, or its job has one reason with words.
func checkReasons(t *testing.T, s *Snapshot, plan Plan, started map[JobID]uint32) {
	t.Helper()
	reasons := make(map[JobID]Reason)
	last := JobID(0)
	for _, r := range plan.Reasons {
		if r.Job <= last {
			t.Fatalf("reasons of jobs %d and %d are out of order", last, r.Job)
		}
		last, reasons[r.Job] = r.Job, r
		if Sentence(r, *s) == "" || Display(r, *s) == "" || r.Code == ReasonNone {
			t.Fatalf("job %d waits without words: %+v", r.Job, r)
		}
		if (r.Code == ReasonPriority) != (r.Blocker != 0) || r.Blocker == r.Job {
			t.Fatalf("job %d is blocked by job %d: %+v", r.Job, r.Blocker, r)
		}
		if (r.Code == ReasonReqNodeNotAvail) != (r.Lack != nil && len(r.Lack.Unavailable) > 0) {
			t.Fatalf("job %d misses no node: %+v", r.Job, r)
		}
	}
	for _, job := range s.Waiting {
		_, waits := reasons[job.ID]
		kept := job.Held != NotHeld || job.Dependency != NoDependency || job.BeginMS > s.NowMS
		kept = kept || job.DeadlineMS != 0 && s.NowMS+int64(s.Shapes[job.Shape].TimeLimitS)*1000 > job.DeadlineMS
		if rest := job.Tasks - started[job.ID]; started[job.ID] > job.Tasks || waits != (rest > 0 || job.Throttled || kept) {
			t.Fatalf("job %+v: %d started, reason %+v", job, started[job.ID], reasons[job.ID])
		}
	}
}

func TestPlansOfRandomClusters(t *testing.T) {
	starts, codes := 0, make(map[ReasonCode]int)
	var memo Memo
	for seed := range uint64(1500) {
		w := newWorld(seed, 1+int(seed%12), int(seed%60))
		plan, own := Schedule(w.snapshot, Memo{})
		checkPlan(t, &w.snapshot, plan)
		starts += len(plan.Starts)
		for _, r := range plan.Reasons {
			codes[r.Code]++
		}

		shuffled := w.snapshot
		shuffled.Waiting = slices.Clone(shuffled.Waiting)
		w.random.Shuffle(len(shuffled.Waiting), func(i, j int) {
			shuffled.Waiting[i], shuffled.Waiting[j] = shuffled.Waiting[j], shuffled.Waiting[i]
		})
		again, _ := Schedule(shuffled, Memo{})
		again.Priorities = inOrderOf(&w.snapshot, &shuffled, again.Priorities)
		if !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: another order of the same jobs gives another plan", seed)
		}
		if again, _ := Schedule(w.snapshot, own); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: its own memo gives another plan", seed)
		}
		if again, memo = Schedule(w.snapshot, memo); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: the memo of another cluster gives another plan", seed)
		}
		checkMemoAfterChange(t, w, own)
	}
	t.Logf("%d starts, reasons %v", starts, codes)
	for _, code := range []ReasonCode{ReasonBeginTime, ReasonDependency, ReasonDependencyNeverSatisfied, ReasonDeadline, ReasonLimit, ReasonLicenses, ReasonNetwork} {
		if codes[code] == 0 {
			t.Errorf("no job waits for %s: the clusters are too tame", code)
		}
	}
	for code := ReasonPriority; code <= ReasonAccountNotAllowed; code++ {
		if codes[code] == 0 {
			t.Errorf("no job waits for %s: the clusters are too tame", code)
		}
	}
}

// checkMemoAfterChange changes one thing about the inventory and plans again
// with the memo of before.
func checkMemoAfterChange(t *testing.T, w *world, memo Memo) {
	t.Helper()
	s := w.snapshot
	s.Nodes = slices.Clone(s.Nodes)
	n := &s.Nodes[w.random.IntN(len(s.Nodes))]
	switch w.random.IntN(6) {
	case 5:
		n.Guests = place.Guests{Bound: true, GPUs: n.Guests.GPUs ^ 1, MemoryBytes: n.MemoryBytes, TmpBytes: n.TmpBytes}
	case 4:
		s.Switches = slices.Clone(s.Switches)
		if len(s.Switches) > 0 {
			s.Switches = s.Switches[:len(s.Switches)-1]
		}
	case 0:
		n.Available = !n.Available
	case 1:
		n.Features = []string{"ib", "ssd"}
	case 2:
		n.Devices = slices.Clone(n.Devices)
		for i := range n.Devices {
			n.Devices[i].Healthy = !n.Devices[i].Healthy
		}
	case 3:
		s.Partitions = slices.Clone(s.Partitions)
		s.Partitions[0].Nodes = s.Partitions[0].Nodes[1:]
	}
	plan, _ := Schedule(s, Memo{})
	if again, _ := Schedule(s, memo); !reflect.DeepEqual(plan, again) {
		t.Fatal("a memo outlives the inventory that it was made for")
	}
}

// TestFeasibleAgreesWithSchedule: what starts was feasible, and what is not
// feasible never waits for resources.
func TestFeasibleAgreesWithSchedule(t *testing.T) {
	for seed := range uint64(500) {
		w := newWorld(seed, 1+int(seed%12), 40)
		plan, _ := Schedule(w.snapshot, Memo{})
		shapes := make(map[JobID]Shape)
		for _, job := range w.snapshot.Waiting {
			shapes[job.ID] = w.snapshot.Shapes[job.Shape]
		}
		for _, start := range plan.Starts {
			if r, ok := Feasible(w.snapshot, shapes[start.Job]); !ok {
				t.Fatalf("seed %d: job %d starts and is not feasible: %s", seed, start.Job, Sentence(r, w.snapshot))
			}
		}
		for _, r := range plan.Reasons {
			_, ok := Feasible(w.snapshot, shapes[r.Job])
			if !ok && (r.Code == ReasonResources || r.Code == ReasonReqNodeNotAvail) {
				t.Fatalf("seed %d: job %d waits for %s and is not feasible", seed, r.Job, r.Code)
			}
		}
	}
}

func TestFeasibleBeforeAnyNodeIsKnown(t *testing.T) {
	shape := Shape{Partitions: []int{0}, Request: place.Request{GPUsPerNode: 8, MinNodes: 2}}
	s := Snapshot{Partitions: []Partition{{Name: "main", Up: true}}}
	if r, ok := Feasible(s, shape); !ok {
		t.Errorf("without nodes: %s", Sentence(r, s))
	}
	s.Nodes = []place.Node{{Name: "n1"}}
	s.Partitions[0].Nodes = []place.NodeIndex{0}
	if r, ok := Feasible(s, shape); !ok {
		t.Errorf("with a node that never registered: %s", Sentence(r, s))
	}
	s.Nodes[0].CPUs = place.FirstCPUs(4)
	if _, ok := Feasible(s, shape); ok {
		t.Error("eight GPUs on a node without any are feasible")
	}
	if r, ok := Feasible(s, Shape{}); ok || Sentence(r, s) == "" {
		t.Errorf("a job without a partition: feasible %v, %q", ok, Sentence(r, s))
	}
}
