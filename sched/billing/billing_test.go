package billing

import (
	"math"
	"testing"
)

// TestSlurmsExample is the one of slurm.conf(5), TRESBillingWeights: a job of
// one CPU and 8 GB with CPU=1.0,Mem=0.25G,GRES/gpu=2.0 is billed 3, and 2 under
// MAX_TRES.
func TestSlurmsExample(t *testing.T) {
	kinds := []Kind{Unbilled, CPU, OfNode, Memory, Global}
	weights := []int64{0, 1 * Scale, 2 * Scale, Scale / 4, Scale / 2}
	amounts := []int64{99, 1, 0, 8 << 30, 0}
	for _, c := range []struct {
		name     string
		licenses int64
		weights  []int64
		maxTRES  bool
		want     int64
	}{
		{"the sum", 0, weights, false, 3 * Scale},
		{"MAX_TRES", 0, weights, true, 2 * Scale},
		{"MAX_TRES adds what is global", 4, weights, true, 4 * Scale},
		{"no weights: CPUs", 4, nil, false, 1 * Scale},
	} {
		amounts[4] = c.licenses
		if got := Weighted(amounts, c.weights, kinds, c.maxTRES); got != c.want {
			t.Errorf("%s: billed %d millionths, not %d", c.name, got, c.want)
		}
	}
}

func TestNothingRunsOver(t *testing.T) {
	kinds := []Kind{CPU, Memory, Global}
	huge := []int64{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	for _, weights := range [][]int64{nil, huge, {1, 1, 1}, {-5, -5, -5}} {
		for _, maxTRES := range []bool{false, true} {
			if got := Weighted(huge, weights, kinds, maxTRES); got < 0 {
				t.Errorf("weights %v: %d", weights, got)
			}
		}
	}
	if got := Weighted([]int64{-7, 0, 0}, nil, kinds, false); got != 0 {
		t.Errorf("a negative amount is billed %d", got)
	}
}
