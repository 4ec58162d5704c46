package sched

import (
	"slices"
	"testing"
)

// TestNobodyStarves: where jobs want no licenses, go in the order in which they came, and
// all have a time limit, a job starts by the time at which all before it would have run one
// after the other, each as long as the longest limit, behind what ran when it came. Short
// and narrow jobs that fit into holes come all the while.
func TestNobodyStarves(t *testing.T) {
	started := 0
	for seed := range uint64(24) {
		g := newAhead(t, 2*seed) // the even ones have no closed nodes
		s := &g.w.snapshot
		s.Partitions = s.Partitions[:1]
		s.Partitions[0].Up, s.Partitions[0].PrivateOnly, s.Partitions[0].RootAllowed = true, false, true
		limitS := uint32(0)
		for i := range s.Shapes {
			s.Shapes[i].Partitions = []int{0}
			s.Shapes[i].TimeLimitS = min(s.Shapes[i].TimeLimitS, s.Partitions[0].MaxTimeS, 4*3600)
			if i%2 == 0 {
				s.Shapes[i].Request.MinNodes, s.Shapes[i].TimeLimitS = 0, 600
			}
			limitS = max(limitS, s.Shapes[i].TimeLimitS)
		}
		byMS := map[JobID]int64{}
		id := JobID(1)
		submit := func() {
			g.submit(id)
			s.Waiting[len(s.Waiting)-1].Licenses = nil
			g.jobs[id] = s.Waiting[len(s.Waiting)-1]
			before := int64(1)
			for i := range s.Waiting {
				before += int64(s.Waiting[i].Tasks)
			}
			byMS[id] = s.NowMS + before*int64(limitS)*1000
			id++
		}
		for range 12 {
			submit()
		}
		for range 60 {
			g.pass()
			for range g.w.random.IntN(4) {
				submit()
			}
			for i := range s.Waiting {
				if job := &s.Waiting[i]; s.NowMS > byMS[job.ID] {
					if r, turn := g.waitsForTurn(job.ID); turn {
						t.Fatalf("seed %d: job %d should have started by %d, and now %d it waits: %+v", g.seed, job.ID, byMS[job.ID], s.NowMS, r)
					}
				}
			}
			if !g.advance() {
				break
			}
		}
		started += len(g.endMS)
	}
	t.Logf("%d jobs started", started)
	if started < 500 {
		t.Error("the clusters are too tame")
	}
}

// waitsForTurn reports whether a job waits for what others have.
func (g *ahead) waitsForTurn(job JobID) (Reason, bool) {
	plan, _ := Schedule(g.w.snapshot, Memo{})
	at := slices.IndexFunc(plan.Reasons, func(r Reason) bool { return r.Job == job })
	if at < 0 {
		return Reason{}, false
	}
	code := plan.Reasons[at].Code
	return plan.Reasons[at], code == ReasonPriority || code == ReasonResources || code == ReasonLicenses
}
