package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// workload is a trace from a seed: users who ask for much more time than they use.
func workload(seed uint64, jobs int) []trace.Job {
	random := rand.New(rand.NewPCG(seed, 3))
	all, nowS := make([]trace.Job, jobs), int64(0)
	for i := range all {
		nowS += random.Int64N(300)
		run := 1 + random.Int64N(2000)
		all[i] = trace.Job{
			ID: uint32(i + 1), SubmitS: nowS, RunS: run, EstimateS: run * (1 + random.Int64N(5)), Processors: 1 << random.IntN(6),
			User: string(rune('a' + random.IntN(5))),
		}
	}
	return all
}

// TestNoJobIsDelayed: with backfill, jobs start by the time that was promised them first,
// if plans go by time limits; and never are more processors used than there are.
func TestNoJobIsDelayed(t *testing.T) {
	cluster, err := Pool(64)
	if err != nil {
		t.Fatal(err)
	}
	promised := 0
	for seed := range uint64(3) {
		jobs := workload(seed, 150)
		for _, policy := range Policies {
			result, err := Run(jobs, cluster, policy, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkProcessors(t, result)
			for _, o := range result.Jobs {
				if o.StartS < o.SubmitS {
					t.Fatalf("seed %d, %s: job %d starts before it is submitted: %+v", seed, policy.Name, o.ID, o)
				}
				if o.PromisedS < 0 {
					continue
				}
				if promised++; o.StartS > o.PromisedS && policy.Predict == Limits {
					t.Fatalf("seed %d, %s: job %d was promised %d and starts at %d", seed, policy.Name, o.ID, o.PromisedS, o.StartS)
				}
			}
			if again, _ := Run(jobs, cluster, policy, nil); !reflect.DeepEqual(result, again) {
				t.Fatalf("seed %d, %s: the same trace gives another result", seed, policy.Name)
			}
		}
	}
	if promised < 300 {
		t.Errorf("%d promises: the traces are too tame", promised)
	}
}

func checkProcessors(t *testing.T, result *Result) {
	t.Helper()
	for _, at := range result.Jobs {
		used := uint32(0)
		for _, o := range result.Jobs {
			if o.StartS <= at.StartS && at.StartS < o.EndS && o.Saves == 0 { // others may be saved then
				used += o.Processors
			}
		}
		if used > result.Processors {
			t.Fatalf("%s: at %d jobs have %d of %d processors", result.Policy, at.StartS, used, result.Processors)
		}
	}
}

// TestPoliciesDiffer: what each policy is for shows in a trace of a crowded machine.
func TestPoliciesDiffer(t *testing.T) {
	cluster, err := Pool(48)
	if err != nil {
		t.Fatal(err)
	}
	wait := map[string]float64{}
	for _, policy := range Policies {
		result, err := Run(workload(1, 300), cluster, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		wait[policy.Name] = result.Figures().MeanWaitS
	}
	t.Log(wait)
	if wait["easy"] >= wait["fcfs"] || wait["conservative"] >= wait["fcfs"] || wait["easy++"] == wait["easy-sjbf"] || wait["easy-sjbf"] == wait["easy"] {
		t.Errorf("mean waits %v", wait)
	}
}

// TestLeastLimit: a job that may run with less than its limit starts in front of a wide one,
// which it does not delay, and ends at the limit that it got.
func TestLeastLimit(t *testing.T) {
	cluster, err := Pool(2)
	if err != nil {
		t.Fatal(err)
	}
	easy := Policies[slices.IndexFunc(Policies, func(p Policy) bool { return p.Name == "easy" })]
	for _, want := range []struct{ leastS, startS, endS int64 }{{60, 2, 122}, {121, 2, 123}, {149, 160, 660}, {180, 160, 660}, {0, 160, 660}} {
		result, err := Run([]trace.Job{
			{ID: 1, RunS: 150, EstimateS: 150, Processors: 1},
			{ID: 2, SubmitS: 1, RunS: 10, EstimateS: 10, Processors: 2},
			{ID: 3, SubmitS: 2, RunS: 500, EstimateS: 600, LeastS: want.leastS, Processors: 1},
		}, cluster, easy, nil)
		if err != nil {
			t.Fatal(err)
		}
		if wide, short := result.Jobs[1], result.Jobs[2]; wide.StartS != 150 || short.StartS != want.startS || short.EndS != want.endS {
			t.Errorf("with at least %d seconds it runs from %d to %d, and the wide one from %d on", want.leastS, short.StartS, short.EndS, wide.StartS)
		}
	}
}

// TestTooLarge: a job that can never start is refused, and does not wait for ever.
func TestTooLarge(t *testing.T) {
	cluster, err := Pool(8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run([]trace.Job{{ID: 1, RunS: 1, EstimateS: 1, Processors: 9}}, cluster, Policies[0], nil); err == nil {
		t.Error("a job of 9 processors ran on 8")
	}
	if _, err := Pool(0); err == nil {
		t.Error("a pool of no processors")
	}
}
