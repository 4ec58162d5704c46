package sched

import (
	"cmp"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// planAhead has starts be planned on a stage, and its jobs have time limits.
func (g *stage) planAhead() {
	g.Backfill = BackfillPolicy{On: true, PartJobs: uint32(1 + g.random.IntN(4))}
	g.Licenses = []License{{Name: "matlab", Total: 2}}
	for i := range g.QOS {
		g.QOS[i].GraceTimeS = 10 * g.random.Uint32N(3)
	}
	for i := range g.Partitions {
		g.Partitions[i].GraceTimeS = 10 * g.random.Uint32N(3)
	}
	for i := range g.Shapes {
		g.Shapes[i].TimeLimitS = uint32(20 << g.random.IntN(5))
	}
	if g.seed%2 == 0 { // a reservation that begins while the jobs wait
		for node := range g.Nodes {
			if g.random.IntN(4) == 0 {
				from := g.NowMS + 10_000 + g.random.Int64N(200_000)
				for i := range g.Shapes {
					g.Shapes[i].Closed = append(g.Shapes[i].Closed, Closed{Node: place.NodeIndex(node), FromMS: from, ToMS: from + 100_000})
				}
			}
		}
	}
}

// overtime reports whether a job's time is over.
func (g *stage) overtime(r *Running) bool {
	return r.LeavesByMS != 0 && g.NowMS >= r.LeavesByMS || r.TimeLimitS != 0 && r.TimeLimitS != Unlimited && g.NowMS >= r.StartMS+r.PausedMS+int64(r.TimeLimitS)*1000
}

// TestVictimsBesidePlannedStarts: nobody is chosen for a job that then cannot start
// because of what is planned, reserved, or of licenses: not a second time unless another
// job came between.
func TestVictimsBesidePlannedStarts(t *testing.T) {
	starts, preemptions, again, planned := 0, 0, 0, 0
	for seed := range uint64(200) {
		g := newStage(t, seed)
		g.planAhead()
		jobs := JobID(0)
		for pass := 0; pass < 60; pass++ {
			for g.random.IntN(2) > 0 && jobs < 40 {
				jobs++
				g.submit(jobs)
				if seed%3 == 0 && g.random.IntN(4) == 0 {
					last := &g.Waiting[len(g.Waiting)-1]
					last.Licenses = []LicenseCount{{0, 1}}
					g.submitted[jobs] = *last
				}
			}
			g.pass()
			planned += len(g.Promises.Planned)
			g.NowMS += 1 + int64(g.random.IntN(5000))
			for i := range g.Running {
				if by := g.Running[i].LeavesByMS; by != 0 {
					g.NowMS = min(g.NowMS, by)
				}
			}
			for at := len(g.Running) - 1; at >= 0; at-- {
				r := &g.Running[at]
				if r.Suspended {
					if r.holdsCPUs() && g.random.IntN(2) == 0 {
						r.stand(g.Nodes)
					}
					r.PausedMS += 5000
					continue
				}
				if r.Ending && g.random.IntN(3) == 0 || g.random.IntN(30) == 0 || g.overtime(r) {
					g.end(at)
				}
			}
			if jobs == 40 && len(g.Waiting) == 0 && len(g.Running) == 0 {
				break
			}
		}
		starts, preemptions, again = starts+g.starts, preemptions+g.preemptions+g.suspensions, again+g.again
	}
	t.Logf("%d starts, %d of them planned over passes, %d preemptions, %d times chosen again because of others", starts, planned, preemptions, again)
	if preemptions < 100 || planned < 10_000 {
		t.Error("hardly anybody is preempted, or planned")
	}
}

// TestVictimsForWhatIsPlanned: job 1 is planned on the first two nodes in a minute, when
// job 11 ends, which nobody may preempt. Job 2 may preempt job 10 on the first node, which
// ends in half a minute by itself.
func TestVictimsForWhatIsPlanned(t *testing.T) {
	for _, c := range []struct {
		name     string
		limitS   uint32 // of job 2
		graceS   uint32
		mode     PreemptMode
		licensed bool // both want the only license
		node     place.NodeIndex
		closedS  int64 // when the node is closed to job 2
		victims  int
	}{
		{name: "it would be over in time", limitS: 50, victims: 1},
		{name: "it would run into the planned start", limitS: 100},
		{name: "it would, for the time that the victim takes to leave", limitS: 50, graceS: 20},
		{name: "it would run elsewhere", limitS: 100, node: 2, victims: 1},
		{name: "what stands still is in the way of the planned start", limitS: 50, mode: PreemptSuspend},
		{name: "what stands still elsewhere is not", limitS: 100, mode: PreemptSuspend, node: 2, victims: 1},
		{name: "the license is for the planned start", limitS: 100, licensed: true, node: 2},
		{name: "it would give the license back in time", limitS: 50, licensed: true, node: 2, victims: 1},
		{name: "a reservation begins in time", limitS: 50, node: 2, closedS: 52, victims: 1},
		{name: "a reservation begins before the victim has left", limitS: 50, graceS: 20, node: 2, closedS: 52},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := crowd(1, 0, 0)
			s.QOS = []QOS{{Name: "low", Limits: NoLimits(), GraceTimeS: c.graceS}, {Name: "high", Preempts: []int{0}, Limits: NoLimits()}}
			s.Preemption.Mode = cmp.Or(c.mode, PreemptRequeue)
			s.Backfill, s.Licenses = BackfillPolicy{On: true}, []License{{Name: "matlab", Total: 1}}
			cpus := place.FirstCPUs(4)
			for i, name := range []string{"n0", "n1", "n2"} {
				s.Nodes = append(s.Nodes, place.Node{Name: name, Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 4 << 30, FreeMemory: 4 << 30})
				s.Partitions[0].Nodes = append(s.Partitions[0].Nodes, place.NodeIndex(i))
			}
			s.Partitions = append(s.Partitions, s.Partitions[0]) // else job 1 is before job 2, which preempts nobody
			run := func(id JobID, qos int32, node place.NodeIndex, limitS uint32) {
				placement := place.Placement{Allocs: []place.Alloc{{Node: node, CPUs: cpus, MemoryBytes: 1 << 30, Tasks: 1}}}
				place.Take(s.Nodes, placement, false)
				s.Running = append(s.Running, Running{ID: id, QOS: qos, Association: -1, StartMS: s.NowMS, TimeLimitS: limitS, Placement: placement, Requeue: true, Suspends: true})
			}
			wide := place.Request{MinNodes: 2, MaxNodes: 2, RequiredNodes: []string{"n0", "n1"}, Exclusive: true}
			narrow := place.Request{CPUsPerTask: 4, MemoryPerNode: 1 << 30, RequiredNodes: []string{s.Nodes[c.node].Name}}
			s.Shapes = []Shape{{Partitions: []int{0}, TimeLimitS: 600, Request: wide}, {Partitions: []int{1}, TimeLimitS: c.limitS, Request: narrow}}
			if c.closedS != 0 {
				s.Shapes[1].Closed = []Closed{{Node: c.node, FromMS: s.NowMS + c.closedS*1000, ToMS: profile.Forever}}
			}
			run(10, 0, c.node, 30)
			if c.node != 0 {
				run(12, 1, 0, 30)
			}
			run(11, 1, 1, 60)
			s.Waiting = []Job{{ID: 1, Tasks: 1, QOS: 1, Association: -1, FixedPriority: 9}, {ID: 2, Tasks: 1, QOS: 1, Association: -1, Shape: 1, FixedPriority: 8}}
			if c.licensed {
				s.Waiting[0].Licenses, s.Waiting[1].Licenses = []LicenseCount{{0, 1}}, []LicenseCount{{0, 1}}
			}
			slices.SortFunc(s.Running, func(a, b Running) int { return cmp.Compare(a.ID, b.ID) })
			plan, _ := Schedule(*s, Memo{})
			if len(plan.Promises.Planned) == 0 || plan.Promises.Planned[0].Job != 1 || plan.Promises.Planned[0].StartMS != s.NowMS+60_000 {
				t.Fatalf("job 1 is planned as %+v", plan.Promises.Planned)
			}
			if len(plan.Preemptions) != c.victims {
				t.Errorf("preempted: %+v", plan.Preemptions)
			}
		})
	}
}

// TestVictimsBesideSuspended: job 20 is suspended and gets back CPUs 0-3, of which job 10
// has one. What job 10 would leave besides is too little, so it stays.
func TestVictimsBesideSuspended(t *testing.T) {
	for wanted, victims := range map[uint32]int{1: 1, 2: 0} {
		_, s := crowd(1, 0, 0)
		s.Preemption.Mode = PreemptSuspend
		all, back, some := place.FirstCPUs(5), place.FirstCPUs(4), place.FirstCPUs(5).Minus(place.FirstCPUs(3))
		s.Nodes = []place.Node{{Name: "n0", Available: true, CPUs: all, FreeCPUs: all, MemoryBytes: 4 << 30, FreeMemory: 4 << 30}}
		s.Partitions[0].Nodes = []place.NodeIndex{0}
		on := func(cpus place.CPUSet) place.Placement {
			placement := place.Placement{Allocs: []place.Alloc{{Node: 0, CPUs: cpus, MemoryBytes: 1 << 30, Tasks: 1}}}
			place.Take(s.Nodes, placement, false)
			return placement
		}
		s.Running = []Running{
			{ID: 10, QOS: 0, Association: -1, StartMS: s.NowMS - 1000, TimeLimitS: 3600, Placement: on(some), Requeue: true, Suspends: true},
			{ID: 20, QOS: 2, Association: -1, StartMS: s.NowMS - 9000, TimeLimitS: 3600, Placement: on(place.CPUSet{}), Suspended: true, Continues: true, Back: []place.Alloc{{Node: 0, CPUs: back}}},
		}
		s.Shapes = []Shape{{Partitions: []int{0}, TimeLimitS: 60, Request: place.Request{CPUsPerTask: wanted, MemoryPerNode: 1 << 28}}}
		s.Waiting = []Job{{ID: 1, Tasks: 1, QOS: 1, Association: -1}}
		if plan, _ := Schedule(*s, Memo{}); len(plan.Preemptions) != victims {
			t.Errorf("for %d CPUs these are preempted: %+v", wanted, plan.Preemptions)
		}
	}
}
