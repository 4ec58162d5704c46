package interval

import (
	"math"
	"math/rand/v2"
	"testing"
)

const hour, day = 3600.0, 24 * 3600.0

func TestBest(t *testing.T) {
	for _, row := range []struct{ cost, mean, want float64 }{
		{0, hour, Least},
		{10, 0, Least},
		{math.NaN(), hour, Least},
		{300, 6 * hour, 3402},  // Young's 3600, and 3 % more, less what it costs
		{10, 30 * day, 7193},   // Young's 7200
		{3 * hour, hour, hour}, // saving takes longer than what it saves
		{600, 3000 * day, Most},
		{1, 1, Least},
	} {
		if got := float64(Best(row.cost, row.mean)); math.Abs(got-row.want) > 1 {
			t.Errorf("saves of %v s, a loss every %v s: every %v s, want %v", row.cost, row.mean, got, row.want)
		}
	}
}

// lost is the part of the time that a job loses which is saved every interval:
// Daly's model of the whole run (equation 20), without the restart.
func lost(interval, cost, mean float64) float64 {
	return mean/interval*(math.Exp((interval+cost)/mean)-1) - 1
}

// TestBestLosesLeast: no interval a tenth longer or shorter, nor twice or half as
// long, loses less, but for what the estimate is short of.
func TestBestLosesLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		mean, cost := float64(1+random.IntN(90*24))*hour, float64(1+random.IntN(1200))
		best := float64(Best(cost, mean))
		if cost > mean/4 || best == Least || best == Most {
			continue
		}
		of := func(factor float64) float64 { return lost(best*factor, cost, mean) }
		for _, factor := range []float64{0.5, 0.9, 1.1, 2} {
			if of(factor) < of(1)*0.999 {
				t.Fatalf("saves of %v s, a loss every %v s: every %v s loses %.5f, and %v times that %.5f", cost, mean, best, of(1), factor, of(factor))
			}
		}
	}
}

func TestMeanBetween(t *testing.T) {
	for _, row := range []struct {
		watched float64
		losses  uint32
		want    float64
	}{{0, 0, 30 * day}, {-day, 0, 30 * day}, {300 * day, 0, 330 * day}, {70 * day, 9, 10 * day}, {0, 1, 15 * day}} {
		if got := MeanBetween(row.watched, row.losses); got != row.want {
			t.Errorf("%d losses in %v s: one every %v s, want %v", row.losses, row.watched, got, row.want)
		}
	}
}
