package why

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// cluster is a random one, on which jobs run and others wait.
func cluster(random *rand.Rand) sched.Snapshot {
	s := sched.Snapshot{
		NowMS:    1_700_000_000_000,
		Backfill: sched.BackfillPolicy{On: random.IntN(4) > 0, PartJobs: random.Uint32N(4), ArrayTasks: 1},
	}
	for i := range 2 + random.IntN(6) {
		cpus := place.FirstCPUs(8)
		n := place.Node{Name: fmt.Sprintf("n%d", i), Available: random.IntN(10) > 0, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 16 << 30, FreeMemory: 16 << 30, TmpOpen: true}
		model := []string{"a100", "h200"}[random.IntN(2)]
		for d := range random.IntN(5) {
			n.Devices = append(n.Devices, place.Device{Index: uint32(d), Model: model, Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range 1 + random.IntN(2) {
		p := sched.Partition{Name: fmt.Sprintf("p%d", i), Up: true, MaxTimeS: sched.Unlimited, QOS: -1, PriorityTier: 1, PriorityJobFactor: 1, FillsHoles: random.IntN(2) == 0}
		for n := range s.Nodes {
			if i == 0 || random.IntN(2) == 0 {
				p.Nodes = append(p.Nodes, place.NodeIndex(n))
			}
		}
		s.Partitions = append(s.Partitions, p)
	}
	for range 1 + random.IntN(8) {
		run(random, &s, request(random))
	}
	for i := range 2 + random.IntN(8) {
		s.Shapes = append(s.Shapes, sched.Shape{Partitions: []int{random.IntN(len(s.Partitions))}, TimeLimitS: limit(random), Request: request(random)})
		s.Waiting = append(s.Waiting, sched.Job{ID: sched.JobID(100 + i), Tasks: 1, Shape: i, Association: -1, QOS: -1})
	}
	return s
}

func limit(random *rand.Rand) uint32 { return 600 << random.IntN(8) }

func request(random *rand.Rand) place.Request {
	r := place.Request{MinNodes: 1 + random.Uint32N(3), CPUsPerTask: 1 + random.Uint32N(8), MemoryPerNode: 1 << 30}
	r.MaxNodes = r.MinNodes
	if random.IntN(2) == 0 {
		r.GPUsPerNode = 1 + random.Uint32N(4)
		r.Model = []string{"", "a100", "h200"}[random.IntN(3)]
	}
	return r
}

// run has a job run, if there is room for it.
func run(random *rand.Rand, s *sched.Snapshot, r place.Request) {
	placement, fits := place.Find(s.Nodes, s.Partitions[0].Nodes, r)
	if !fits {
		return
	}
	place.Take(s.Nodes, placement, false)
	s.Running = append(s.Running, sched.Running{
		ID: sched.JobID(1 + len(s.Running)), StartMS: s.NowMS - random.Int64N(600_000), TimeLimitS: limit(random), Placement: placement, Association: -1, QOS: -1,
	})
}

// changed is the queue with one job changed.
func changed(s sched.Snapshot, id sched.JobID, change Change) (sched.Snapshot, bool) {
	s.Waiting, s.Shapes = slices.Clone(s.Waiting), slices.Clone(s.Shapes)
	at := slices.IndexFunc(s.Waiting, func(job sched.Job) bool { return job.ID == id })
	shape := s.Shapes[s.Waiting[at].Shape]
	r := &shape.Request
	switch change.Kind {
	case TimeLimit:
		shape.TimeLimitS = change.Number
	case GPUs:
		r.GPUsPerNode = change.Number
	case Nodes:
		r.MinNodes, r.MaxNodes = change.Number, change.Number
	case ToModel:
		r.Model = change.Name
	case Savable:
		s.Waiting[at].SaveS, s.Waiting[at].RestoreS = 10, 10
	case ToPartition:
		shape.Partitions = []int{slices.IndexFunc(s.Partitions, func(p sched.Partition) bool { return p.Name == change.Name })}
	default:
		return s, false
	}
	s.Waiting[at].Shape = len(s.Shapes)
	s.Shapes = append(s.Shapes, shape)
	return s, true
}

func questionOf(s *sched.Snapshot, job *sched.Job) Job {
	shape := &s.Shapes[job.Shape]
	q := Job{ID: job.ID, TimeLimitS: shape.TimeLimitS, GPUs: shape.Request.GPUsPerNode, Nodes: shape.Request.MinNodes}
	q.Single = append(q.Single, Change{Kind: Savable})
	if shape.Request.GPUsPerNode > 0 {
		q.Single = append(q.Single, Change{Kind: ToModel}, Change{Kind: ToModel, Name: "a100"}, Change{Kind: ToModel, Name: "h200"})
	}
	for i := range s.Partitions {
		q.Single = append(q.Single, Change{Kind: ToPartition, Name: s.Partitions[i].Name})
	}
	return q
}

func always() bool { return true }

// TestAdviceComesTrue follows each piece of advice: what was to start starts in the next
// pass, and what was to start sooner is planned earlier than it was. And where no time
// limit is advised, none of those that could be has the job start.
func TestAdviceComesTrue(t *testing.T) {
	told, kinds := 0, map[Kind]int{}
	var now, sooner int
	for seed := range uint64(120) {
		s := cluster(rand.New(rand.NewPCG(seed, 5)))
		for range 2 { // planned starts stand from the second pass on
			plan, _ := sched.Schedule(s, sched.Memo{})
			s.Promises = plan.Promises
		}
		plan, _ := sched.Schedule(s, sched.Memo{})
		for i := range s.Waiting {
			job := &s.Waiting[i]
			answer := Ask(s, questionOf(&s, job), func(change Change) (sched.Snapshot, bool) { return changed(s, job.ID, change) }, always)
			had := StartIn(&plan, job.ID)
			if answer.Start.Now != had.Now || answer.Start.AtMS != had.AtMS {
				t.Fatalf("seed %d: job %d is told %+v, and its plan is %+v", seed, job.ID, answer.Start, had)
			}
			if answer.Passes > MaxPasses || !answer.Whole {
				t.Fatalf("seed %d: %d passes", seed, answer.Passes)
			}
			for _, advice := range answer.Advice {
				told++
				kinds[advice.Change.Kind]++
				next, _ := changed(s, job.ID, advice.Change)
				then, _ := sched.Schedule(next, sched.Memo{})
				switch got := StartIn(&then, job.ID); {
				case advice.Start.Now:
					now++
					if !got.Now {
						t.Fatalf("seed %d: job %d is advised %+v, which does not start it: %+v", seed, job.ID, advice, got)
					}
				default:
					sooner++
					if got.Now || got.AtMS == 0 || had.AtMS != 0 && got.AtMS >= had.AtMS {
						t.Fatalf("seed %d: job %d is advised %+v; it was planned for %d and now is for %+v", seed, job.ID, advice, had.AtMS, got)
					}
				}
			}
			if !had.Now {
				checkNoneLeft(t, seed, s, job, &answer)
			}
		}
	}
	t.Logf("%d pieces of advice, %d start now, %d sooner, by kind %v", told, now, sooner, kinds)
	for _, kind := range []Kind{TimeLimit, GPUs, Nodes, ToModel, ToPartition, Savable} {
		if kinds[kind] < 3 {
			t.Errorf("kind %d is advised %d times: the clusters are too tame", kind, kinds[kind])
		}
	}
	if now < 60 || sooner < 60 {
		t.Error("the clusters are too tame")
	}
}

// checkNoneLeft: what the search for a time limit passed over would not have helped.
func checkNoneLeft(t *testing.T, seed uint64, s sched.Snapshot, job *sched.Job, answer *Answer) {
	t.Helper()
	longest := uint32(0)
	for _, advice := range answer.Advice {
		if advice.Change.Kind == TimeLimit && advice.Start.Now {
			longest = advice.Change.Number
		}
	}
	for limitS := s.Shapes[job.Shape].TimeLimitS / 2; limitS >= 60; limitS /= 2 {
		if limitS = limitS / 60 * 60; limitS <= longest+longest/8 {
			return
		}
		next, _ := changed(s, job.ID, Change{Kind: TimeLimit, Number: limitS})
		plan, _ := sched.Schedule(next, sched.Memo{})
		if StartIn(&plan, job.ID).Now {
			t.Fatalf("seed %d: job %d would start with a limit of %d s, and is told %d", seed, job.ID, limitS, longest)
		}
	}
}

// TestBounds: no more passes are made than there is time for, and the answer says so.
func TestBounds(t *testing.T) {
	for seed := range uint64(40) {
		s := cluster(rand.New(rand.NewPCG(seed, 5)))
		for i := range s.Waiting {
			job := &s.Waiting[i]
			asked := 0
			answer := Ask(s, questionOf(&s, job), func(change Change) (sched.Snapshot, bool) { return changed(s, job.ID, change) }, func() bool { asked++; return asked <= 2 })
			if answer.Passes > 3 || answer.Whole && !answer.Start.Now {
				t.Fatalf("seed %d: job %d: %d passes, whole %v", seed, job.ID, answer.Passes, answer.Whole)
			}
		}
	}
}
