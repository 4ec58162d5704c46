package sched

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// stage is a cluster over many passes: what a plan says is done, jobs end and
// what was preempted waits again.
type stage struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	*Snapshot
	submitted map[JobID]Job
	passes    int
	came      map[JobID]int  // the pass after which a job came to wait
	chosenIn  map[JobID]int  // the pass in which victims were chosen for a waiting job
	chosenOwn map[JobID]bool // and whether as for an owner's
	back      map[JobID]int  // the pass in which a job continued

	starts, preemptions, again, suspensions, continued, parks int
}

func newStage(t *testing.T, seed uint64) *stage {
	random, s := crowd(seed, 2+int(seed%6), 0)
	g := &stage{t: t, seed: seed, random: random, Snapshot: s, submitted: map[JobID]Job{}, chosenIn: map[JobID]int{}, chosenOwn: map[JobID]bool{}, back: map[JobID]int{}, came: map[JobID]int{}}
	if seed%2 == 1 {
		s.Preemption.Type = PreemptByPartition
	}
	modes := []PreemptMode{PreemptUnset}
	switch seed % 3 {
	case 1:
		s.Preemption.Mode = PreemptSuspend
	case 2:
		modes = append(modes, PreemptSuspend)
	}
	for i := range s.QOS {
		s.QOS[i].Preempt = modes[random.IntN(len(modes))]
	}
	for i := range 1 + random.IntN(3) {
		p := Partition{Name: string(rune('p' + i)), Up: true, MaxTimeS: Unlimited, QOS: -1, PriorityTier: uint32(1 + random.IntN(3)), Preempt: modes[random.IntN(len(modes))]}
		for n := range s.Nodes {
			if random.IntN(3) > 0 {
				p.Nodes = append(p.Nodes, place.NodeIndex(n))
			}
		}
		s.Partitions = append(s.Partitions, p)
	}
	s.Partitions[0].PriorityTier = 1
	for range 4 {
		shape := Shape{Partitions: []int{random.IntN(min(2, len(s.Partitions)))}, Request: someRequest(random)}
		if other := random.IntN(len(s.Partitions)); random.IntN(3) == 0 && other != shape.Partitions[0] && seed%2 == 0 {
			shape.Partitions = append(shape.Partitions, other)
		}
		s.Shapes = append(s.Shapes, shape)
	}
	if seed >= ownedSeeds {
		g.own()
	}
	return g
}

func (g *stage) submit(id JobID) {
	job := Job{ID: id, Tasks: 1, Association: -1, Shape: g.random.IntN(len(g.Shapes)), FixedPriority: 1 + g.random.Uint32N(4), UID: g.random.Uint32N(2), QOS: int32(g.random.IntN(1 + min(2, int(id)/8)))}
	if len(g.Owners) > 0 {
		job.Owner = max(0, int32(g.random.IntN(5))-2)
	}
	g.submitted[id], g.came[id] = job, g.passes
	g.Waiting = append(g.Waiting, job)
}

// pass plans, and does what the plan says.
func (g *stage) pass() {
	g.passes++
	given := *g.Snapshot
	given.Nodes, given.Waiting, given.Running = slices.Clone(g.Nodes), slices.Clone(g.Waiting), slices.Clone(g.Running)
	plan, _ := Schedule(given, Memo{})
	checkPlan(g.t, &given, plan)
	for _, r := range plan.Reasons {
		if r.Code == ReasonResources && !g.Backfill.On && (r.Lack == nil || r.Lack.Short.What == place.Nothing && len(r.Lack.Leaving) == 0) {
			g.t.Fatalf("seed %d: job %d waits for resources, and for nobody: %s", g.seed, r.Job, Sentence(r, given))
		}
	}
	for _, start := range plan.Starts {
		job := g.submitted[start.Job]
		shape := g.Shapes[job.Shape]
		place.Take(g.Nodes, start.Placement, shape.Request.Exclusive)
		g.Running = append(g.Running, Running{
			ID: start.Job, Association: -1, Placement: start.Placement, StartMS: g.NowMS, Partition: start.Partition, QOS: job.QOS,
			TimeLimitS: shape.TimeLimitS, Licenses: job.Licenses,
			Exclusive: shape.Request.Exclusive, Requeue: g.seed%4 < 2 && g.random.IntN(4) > 0, Suspends: true, Owner: job.Owner,
		})
		g.Waiting = slices.DeleteFunc(g.Waiting, func(j Job) bool { return j.ID == start.Job })
		delete(g.chosenIn, start.Job)
		if g.Backfill.On { // it may have been planned, and takes what came free sooner
			g.came[start.Job] = g.passes
		}
		g.starts++
	}
	slices.SortFunc(g.Running, func(a, b Running) int { return int(a.ID) - int(b.ID) })
	g.Promises = plan.Promises
	g.resume(plan.Continues)
	g.preempt(plan.Preemptions)
}

// resume has suspended jobs run again, which takes CPUs that are free.
func (g *stage) resume(ids []JobID) {
	for _, id := range ids {
		at := slices.IndexFunc(g.Running, func(r Running) bool { return r.ID == id })
		r := &g.Running[at]
		for _, alloc := range r.Back {
			if !r.Suspended || !alloc.CPUs.Minus(g.Nodes[alloc.Node].FreeCPUs).Empty() {
				g.t.Fatalf("seed %d: job %d continues, and is not suspended or has no CPUs", g.seed, id)
			}
		}
		r.resume(g.Nodes)
		r.ContinuedMS = g.NowMS
		g.back[id] = g.passes
		g.continued++
	}
}

func (g *stage) preempt(preemptions []Preemption) {
	chosenFor := map[JobID]bool{}
	for _, p := range preemptions {
		at := slices.IndexFunc(g.Running, func(r Running) bool { return r.ID == p.Victim })
		if at < 0 || g.Running[at].Ending {
			g.t.Fatalf("seed %d: job %d is preempted, and does not run", g.seed, p.Victim)
		}
		if p.Own {
			g.checkOwn(&p, &g.Running[at])
		}
		if r := &g.Running[at]; p.Mode == PreemptPark {
			if r.Suspended {
				g.t.Fatalf("seed %d: job %d is parked twice", g.seed, p.Victim)
			}
			g.parkFor(r, g.submitted[p.For].Owner)
			g.parks++
		} else if p.Mode == PreemptSuspend {
			if r.Suspended || p.LostGPUMS != 0 {
				g.t.Fatalf("seed %d: job %d is suspended twice, or loses something", g.seed, p.Victim)
			}
			r.Suspends, r.Suspended, r.Continues = false, true, true
			g.suspensions++
		} else {
			r.Ending = true
			r.LostGPUMS += p.LostGPUMS
			if g.Backfill.On {
				r.LeavesByMS = g.NowMS + int64(p.GraceS)*1000 + r.saveMS()
			}
			g.preemptions++
		}
		chosenFor[p.For] = true
		g.chosenOwn[p.For] = p.Own
	}
	for id := range chosenFor {
		if in, before := g.chosenIn[id]; before {
			g.again++
			if !g.overtaken(id, in) {
				g.t.Fatalf("seed %d, pass %d: victims are chosen for job %d as in pass %d, and nobody came between that goes first", g.seed, g.passes, id, in)
			}
		}
		g.chosenIn[id] = g.passes
	}
}

// overtaken reports whether a job came after a pass that goes before this one.
func (g *stage) overtaken(id JobID, since int) bool {
	mine := g.submitted[id]
	tier := func(job Job, best func(a, b uint32) uint32) uint32 {
		partitions := g.Shapes[job.Shape].Partitions
		of := g.Partitions[partitions[0]].PriorityTier
		for _, p := range partitions {
			of = best(of, g.Partitions[p].PriorityTier)
		}
		return of
	}
	highest := func(a, b uint32) uint32 { return max(a, b) }
	lowest := func(a, b uint32) uint32 { return min(a, b) }
	for other, pass := range g.back { // an owner's job got its CPUs back, which the job may not take
		if g.chosenOwn[id] && pass >= since && g.submitted[other].Owner != 0 {
			return true
		}
	}
	for other, pass := range g.came {
		job := g.submitted[other]
		byQOS := 0
		if g.Preemption.Type == PreemptByQOS {
			byQOS = cmp.Compare(mine.QOS, job.QOS)
		}
		if len(job.Licenses) > 0 && slices.ContainsFunc(g.Waiting, func(j Job) bool { return j.ID == other }) {
			pass = since // it waits for licenses, and when some are free, for nodes
		}
		if pass >= since && job.Owner != 0 && !g.chosenOwn[id] {
			return true // on its own nodes it goes before all
		}
		if pass >= since && cmp.Or(byQOS, cmp.Compare(tier(mine, lowest), tier(job, highest)), cmp.Compare(mine.FixedPriority, job.FixedPriority), cmp.Compare(other, id)) <= 0 {
			return true
		}
	}
	return false
}

// end takes a job away; one that was preempted waits again if it may.
func (g *stage) end(at int) {
	r := g.Running[at]
	g.Running = slices.Delete(slices.Clone(g.Running), at, at+1)
	place.Release(g.Nodes, r.Placement, stayingOf(g.Running))
	if r.Ending && r.Requeue {
		g.Waiting = append(g.Waiting, g.submitted[r.ID])
		g.came[r.ID] = g.passes
	}
}

// TestPromisesAreKept: whatever ends in whatever order, nobody is chosen for a
// job a second time unless another job came between; what is preempted waits
// again, what is suspended continues with its own CPUs, and in the end all have run.
func TestPromisesAreKept(t *testing.T) {
	starts, preemptions, again, suspensions, continued, parks := 0, 0, 0, 0, 0, 0
	for seed := uint64(0); seed < ownedSeeds+300; seed += 5 {
		g, jobs := newStage(t, seed), JobID(0)
		for pass := 0; ; pass++ {
			if pass > 2000 {
				t.Fatalf("seed %d: after %d passes %d jobs wait and %d run: they preempt each other for ever", seed, pass, len(g.Waiting), len(g.Running))
			}
			for g.random.IntN(2) > 0 && jobs < 40 {
				jobs++
				g.submit(jobs)
			}
			endsOneIn := 30 // while jobs come; then the cluster runs empty
			if jobs == 40 {
				endsOneIn = 3
			}
			before := g.starts + g.preemptions + g.suspensions + g.continued + g.parks
			g.pass()
			g.NowMS += int64(g.random.IntN(5000))
			moved := g.starts+g.preemptions+g.suspensions+g.continued+g.parks > before
			for at := len(g.Running) - 1; at >= 0; at-- {
				if r := &g.Running[at]; r.Suspended {
					if len(r.Parking) > 0 && g.random.IntN(2) == 0 {
						r.yield(g.Snapshot)
					} else if len(r.Parking) == 0 && r.holdsCPUs() && g.random.IntN(2) == 0 {
						r.stand(g.Nodes)
					}
					continue // it ends only once it has resumed
				}
				if g.Running[at].Ending && g.random.IntN(3) == 0 || g.random.IntN(endsOneIn) == 0 {
					g.end(at)
					moved = true
				}
			}
			if !moved && len(g.Running) == 0 && jobs == 40 {
				break // who waits still does not fit at all
			}
		}
		starts, preemptions, again = starts+g.starts, preemptions+g.preemptions, again+g.again
		suspensions, continued, parks = suspensions+g.suspensions, continued+g.continued, parks+g.parks
	}
	t.Logf("%d starts, %d preemptions, %d suspensions, %d parks, %d continued, %d times chosen again because of others", starts, preemptions, suspensions, parks, continued, again)
	if preemptions < 100 || suspensions < 40 || parks < 40 || continued != suspensions+parks {
		t.Error("hardly anybody is preempted, or not all that were suspended continued")
	}
}
