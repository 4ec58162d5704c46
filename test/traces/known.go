package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// workload is a recorded one, and what is known of it.
type workload struct {
	name       string
	file       string // below the folder of traces
	processors uint32
	long       bool // its replays take minutes together
	policies   []known
}

// known is what a policy has to come to.
type known struct {
	policy string
	// Figures of pyss, the simulator of the Hebrew University; 0 = it has none.
	waitS, slowdown float64
	within          float64 // as a part of these
	// below is a slowdown that is not reached; 0 = none.
	below  float64
	golden string // a file with the start of each job in pyss, "" = none
	equal  bool   // they are equal, job by job
}

// exact is what rounding in print leaves.
const exact = 1e-5

// workloads are those whose figures are known: parts of the Parallel Workloads Archive.
// Ties within one second may fall either way; on Curie they count for more.
var workloads = []workload{
	{"SDSC SP2, the first 5,000 jobs", "swf/SDSC-SP2-first5000_pyss_5K_sample.swf.gz", 128, false, []known{
		{policy: "fcfs", waitS: 15711.5, slowdown: 254.13, within: exact, golden: "golden/5k_fcfs.csv.gz", equal: true},
		{policy: "easy", waitS: 3372.9, slowdown: 17.14, within: 0.005, golden: "golden/5k_easy.csv.gz"},
		{policy: "easy-sjbf", waitS: 3524.7, slowdown: 17.29, within: 0.005, golden: "golden/5k_sjbf.csv.gz"},
		{policy: "conservative", waitS: 3558.0, slowdown: 16.61, within: 0.005, golden: "golden/5k_cons.csv.gz"},
		{policy: "easy++", below: 17.14},
		{policy: "easy-learned", below: 17.14},
		{policy: "easy-exact", below: 17.14},
		{policy: "easy-checkpoint", below: 16.06},
	}},
	{"CEA Curie, hybrid partition, a part", "curie_sample/curie_hybrid_nodes_halfA.swf.gz", 144, false, []known{
		{policy: "fcfs", waitS: 3648.3, slowdown: 22.69, within: exact, golden: "curie_sample/curieA_fcfs.csv.gz", equal: true},
		{policy: "easy", waitS: 3236.8, slowdown: 3.89, within: 0.01, golden: "curie_sample/curieA_easy.csv.gz"},
		{policy: "easy-sjbf", waitS: 3236.8, slowdown: 3.89, within: 0.01},
		{policy: "conservative", waitS: 3236.8, slowdown: 3.89, within: 0.005, golden: "curie_sample/curieA_cons.csv.gz"},
		{policy: "easy++", below: 3.89},
		{policy: "easy-learned", below: 3.89},
		{policy: "easy-exact", below: 3.89},
		{policy: "easy-checkpoint", below: 3.89},
	}},
	{"KTH SP2", "swf/KTH-SP2-1996-2.1-cln.swf.gz", 100, true, []known{
		{policy: "fcfs", waitS: 218980.6, slowdown: 4297.07, within: exact, golden: "golden/kth_fcfs.csv.gz", equal: true},
		{policy: "easy", waitS: 6412.2, slowdown: 86.28, within: 0.005, golden: "golden/kth_easy.csv.gz"},
		{policy: "easy-sjbf", waitS: 5659.1, slowdown: 65.21, within: 0.005, golden: "golden/kth_sjbf.csv.gz"},
		{policy: "easy++", below: 86.28},
		{policy: "easy-learned", below: 86.28},
		{policy: "easy-exact", below: 86.28},
		{policy: "easy-checkpoint", below: 86.28},
	}},
}

// judge says what is wrong with a replay; nil = nothing.
func (k *known) judge(r *replayed) error {
	var wrong []error
	if k.waitS > 0 && off(r.MeanWaitS, k.waitS) > k.within {
		wrong = append(wrong, fmt.Errorf("the mean wait is %.1f s, %.3g %% off", r.MeanWaitS, 100*off(r.MeanWaitS, k.waitS)))
	}
	// Slowdowns are known in hundredths.
	if hundredth := 0.005 / k.slowdown; k.slowdown > 0 && off(r.MeanSlowdown, k.slowdown) > k.within+hundredth {
		wrong = append(wrong, fmt.Errorf("the slowdown is %.2f, %.3g %% off", r.MeanSlowdown, 100*off(r.MeanSlowdown, k.slowdown)))
	}
	if k.below > 0 && r.MeanSlowdown >= k.below {
		wrong = append(wrong, fmt.Errorf("the slowdown is not below %.2f", k.below))
	}
	if k.equal && r.Differ > 0 {
		wrong = append(wrong, fmt.Errorf("%d jobs start at another time than in pyss", r.Differ))
	}
	if r.Late > 0 && slices.Contains(keepsPromises, k.policy) {
		wrong = append(wrong, fmt.Errorf("%d jobs start later than it was planned first", r.Late))
	}
	return errors.Join(wrong...)
}

// keepsPromises are the policies that plan by time limits: no job can outlast what it is
// planned for, so that no start is later than the first one that was planned.
var keepsPromises = []string{"easy", "easy-sjbf", "easy-checkpoint", "conservative"}

func off(got, want float64) float64 { return math.Abs(got-want) / want }
