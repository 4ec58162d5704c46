package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// casts are the first faults of all lanes by a seed.
func casts(seed uint64) (all []cast) {
	for number, l := range lanes(1) {
		r := rand.New(rand.NewPCG(seed, uint64(number)+1))
		for range 50 {
			all = append(all, throw(r, l))
		}
	}
	return all
}

func TestSeedGivesTheFaults(t *testing.T) {
	if !slices.Equal(casts(7), casts(7)) {
		t.Error("the same seed gave other faults")
	}
	if slices.Equal(casts(7), casts(8)) {
		t.Error("another seed gave the same faults")
	}
}

func TestLanes(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range lanes(1) {
		for _, f := range l.faults {
			if seen[f.name] || f.weight < 1 || f.least > f.most || f.make == nil {
				t.Errorf("%s: fault %s is there twice, or cannot be thrown", l.name, f.name)
			}
			seen[f.name] = true
		}
	}
}

func TestPickLeavesSlowJobsOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	picked := map[string]bool{}
	for range 2000 {
		j := pick(r, slices.Concat(kinds, savedKinds), false)
		if j.timeLimit > 0 {
			t.Fatalf("picked %s", j.kind)
		}
		picked[j.kind] = true
	}
	if len(picked) < 17 {
		t.Errorf("picked only %v", picked)
	}
}

// TestWorstGap: a submission that takes long, or follows others that failed,
// counts from the first attempt that failed.
func TestWorstGap(t *testing.T) {
	var j journal
	first, second := &history.Submission{Name: "a"}, &history.Submission{Name: "b"}
	j.submitting(first)
	first.Asked -= 5_000_000_000
	j.submitting(second)
	j.submitted(second, 2)
	if j.worstGap < 5000*time.Second || j.worstGap > 9000*time.Second {
		t.Errorf("%v, want about 5000 s: somebody had asked that long", j.worstGap)
	}
	j.worstGap = 0
	j.submitted(first, 1)
	if j.worstGap > 4000*time.Second {
		t.Errorf("%v, want no more than since the last answer", j.worstGap)
	}
	if accepted, unanswered := j.counts(); accepted != 2 || unanswered != 0 {
		t.Error(accepted, unanswered)
	}
}
