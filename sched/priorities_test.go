package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/priority"
)

// inOrderOf puts priorities by position in another snapshot's Waiting into the
// order of this one's.
func inOrderOf(s, other *Snapshot, priorities []uint32) []uint32 {
	by := make(map[JobID]uint32)
	for i := range other.Waiting {
		by[other.Waiting[i].ID] = priorities[i]
	}
	out := make([]uint32, len(s.Waiting))
	for i := range s.Waiting {
		out[i] = by[s.Waiting[i].ID]
	}
	return out
}

// share gives a world accounts, QOS, licenses and weights at random, and no
// limits but the licenses.
func (w *world) share() {
	r, s := w.random, &w.snapshot
	s.Accounting, s.Running, s.QOS = AccountingPolicy{}, nil, nil
	s.TRES = []string{TRESBilling, TRESCPU, TRESGPU, TRESGPU + ":a100", "license/x", TRESMemory, TRESNode}
	s.Licenses = []License{{Name: "x", Total: r.Uint32N(5)}}
	s.Associations = []Association{{Parent: -1, Account: "root"}}
	for range r.IntN(12) {
		parent := r.IntN(len(s.Associations))
		if s.Associations[parent].User != "" {
			parent = 0
		}
		a := Association{Parent: parent, Account: fmt.Sprintf("a%d", len(s.Associations)), Shares: r.Uint32N(4), ShareParent: r.IntN(8) == 0, UsageRaw: r.Int64N(5), Priority: r.Uint32N(3)}
		if r.IntN(2) == 0 {
			a.User = "u"
		}
		s.Associations = append(s.Associations, a)
	}
	for i := range r.IntN(3) {
		s.QOS = append(s.QOS, QOS{Name: fmt.Sprintf("q%d", i), Priority: r.Uint32N(3)})
	}
	weight := func() uint32 { return r.Uint32N(2) * r.Uint32N(1000) }
	s.Priority = PriorityPolicy{
		WeightAge: weight(), WeightAssociation: weight(), WeightFairShare: weight(), WeightJobSize: weight(), WeightPartition: weight(), WeightQOS: weight(),
		MaxAgeS: 1 + r.Uint32N(100), FavorSmall: r.IntN(2) == 0, SmallRelativeToTime: r.IntN(3) == 0,
	}
	if r.IntN(2) == 0 {
		for range s.TRES {
			s.Priority.WeightTRES = append(s.Priority.WeightTRES, weight())
		}
	}
	for i := range s.Partitions {
		s.Partitions[i].PriorityJobFactor, s.Partitions[i].QOS, s.Partitions[i].BillingWeights = r.Uint32N(4), -1, nil
	}
	for i := range s.Waiting {
		job := &s.Waiting[i]
		job.Association, job.QOS = int32(r.IntN(len(s.Associations)+1))-1, int32(r.IntN(len(s.QOS)+1))-1
		job.AgeMS, job.Nice, job.SiteFactor = r.Int64N(200_000), int32(r.IntN(5)), int32(r.IntN(5))
		job.FixedPriority *= r.Uint32N(4) / 3
		if job.Licenses = nil; r.IntN(4) == 0 {
			job.Licenses = []LicenseCount{{0, 1 + r.Uint32N(3)}}
		}
	}
}

// TestPrioritiesOfRandomClusters: the pass and gprio say the same, it is the
// sum of the factors, and nothing that could have taken the place of what a
// plan starts had a higher priority.
func TestPrioritiesOfRandomClusters(t *testing.T) {
	several := 0
	for seed := range uint64(1500) {
		w := newWorld(seed, 1+int(seed%12), int(seed%60))
		w.share()
		s := w.snapshot
		plan, _ := Schedule(s, Memo{})
		checkPlan(t, &s, plan)
		seen := make(map[int]bool)
		for f := range PriorityFactors(s) {
			if !seen[f.Job] && plan.Priorities[f.Job] != f.Priority {
				t.Fatalf("seed %d: job %d has priority %d in the plan, %d by its factors", seed, s.Waiting[f.Job].ID, plan.Priorities[f.Job], f.Priority)
			}
			if seen[f.Job] {
				several++
			}
			seen[f.Job] = true
			checkFactors(t, &s, f)
		}
		for i := range s.Waiting {
			job := &s.Waiting[i]
			held := job.Held != NotHeld
			left := held || job.BeginMS > s.NowMS || job.Dependency != NoDependency
			if left == seen[i] || held != (plan.Priorities[i] == 0) {
				t.Fatalf("seed %d: job %d: held %v, priority %d", seed, s.Waiting[i].ID, held, plan.Priorities[i])
			}
		}
		checkFirst(t, &s, plan)
	}
	if several == 0 {
		t.Error("no job is in several partitions: the clusters are too tame")
	}
}

func checkFactors(t *testing.T, s *Snapshot, f Factors) {
	t.Helper()
	job, w := &s.Waiting[f.Job], &s.Priority
	factors, weights := []priority.Fraction{f.Age, f.Association, f.FairShare, f.QOS, f.JobSize, f.Weighs}, []uint32{w.WeightAge, w.WeightAssociation, w.WeightFairShare, w.WeightQOS, w.WeightJobSize, w.WeightPartition}
	factors, weights = append(factors, f.TRES...), append(weights, w.WeightTRES...)
	var sum priority.Weighted
	for i, factor := range factors {
		if value := factor.Float(); value < 0 || value > 1 {
			t.Fatalf("job %d: factor %d is %v", job.ID, i, value)
		}
		sum = sum.Plus(factor.Times(weights[i]))
	}
	want := priority.Sum(sum, f.Site, f.Nice)
	switch {
	case job.FixedPriority != 0:
		want = job.FixedPriority
	case !w.Weighs():
		want = uint32(basicPriority + int64(f.Site) - int64(f.Nice))
	}
	if f.Priority != want || f.Priority == 0 {
		t.Fatalf("job %d has priority %d, its factors make %d", job.ID, f.Priority, want)
	}
}

// checkFirst: of jobs of one shape and user, those of higher priority start
// first, and of equal ones those of lower numbers. One that waits for a license
// or for its switches lets others go first.
func checkFirst(t *testing.T, s *Snapshot, plan Plan) {
	t.Helper()
	started := make(map[JobID]uint32)
	for _, start := range plan.Starts {
		started[start.Job]++
	}
	p := newPass(s, Memo{})
	free := func(job *Job) bool { _, is := p.eligible(job); return is }
	for i := range s.Waiting {
		for j := range s.Waiting {
			a, b := &s.Waiting[i], &s.Waiting[j]
			first := plan.Priorities[i] > plan.Priorities[j] || plan.Priorities[i] == plan.Priorities[j] && a.ID < b.ID
			if len(s.Shapes[a.Shape].Partitions) < 2 && a.Shape == b.Shape && a.UID == b.UID && len(a.Licenses) == 0 && s.Shapes[a.Shape].Request.Switches == 0 && free(a) && free(b) && first && started[a.ID] < a.Tasks && started[b.ID] > 0 {
				t.Fatalf("job %d (%d) starts before job %d (%d), which asks for the same", b.ID, plan.Priorities[j], a.ID, plan.Priorities[i])
			}
		}
	}
}

// BenchmarkPriorities is BenchmarkFull with all weights and a tree of 1,000
// accounts and 10,000 users, compared to the same with given priorities.
func BenchmarkPriorities(b *testing.B) {
	for _, weighted := range []bool{false, true} {
		b.Run(fmt.Sprintf("jobs=100000/weights=%v", weighted), func(b *testing.B) {
			s := full(benchmarkCluster(1000, 100_000, 20))
			r := rand.New(rand.NewPCG(1, 1))
			s.Associations = []Association{{Parent: -1}}
			for i := range 1000 {
				s.Associations = append(s.Associations, Association{Parent: r.IntN(i + 1), Account: fmt.Sprint(i), Shares: 1 + r.Uint32N(100), UsageRaw: r.Int64N(1 << 50)})
			}
			for range 10_000 {
				s.Associations = append(s.Associations, Association{Parent: 1 + r.IntN(1000), User: "u", Shares: 1 + r.Uint32N(100), UsageRaw: r.Int64N(1 << 45)})
			}
			s.Waiting = slices.Clone(s.Waiting)
			for i := range s.Waiting {
				job := &s.Waiting[i]
				job.Association, job.QOS, job.AgeMS, job.FixedPriority = int32(1001+r.IntN(10_000)), -1, r.Int64N(1<<30), 1+r.Uint32N(13_000)
				if weighted {
					job.FixedPriority = 0
				}
			}
			if weighted {
				s.Priority = PriorityPolicy{WeightAge: 1000, WeightAssociation: 10, WeightFairShare: 10000, WeightJobSize: 1000, WeightPartition: 1000, WeightQOS: 1000, MaxAgeS: 7 * 86400}
			}
			_, memo := Schedule(s, Memo{})
			for b.Loop() {
				_, memo = Schedule(s, memo)
			}
		})
	}
}
