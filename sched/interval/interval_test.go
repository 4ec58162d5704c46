package interval

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBest(t *testing.T) {
	for _, row := range []struct{ cost, mean, want time.Duration }{
		{0, time.Hour, Least},
		{10 * time.Second, 0, Least},
		{5 * time.Minute, 6 * time.Hour, 3492 * time.Second},        // sqrt(2·300·21600) = 3600 (1 + 0.0278 + 0.0008) - 300, less
		{10 * time.Second, 30 * 24 * time.Hour, 7193 * time.Second}, // Young: 7200
		{3 * time.Hour, time.Hour, time.Hour},                       // saving takes longer than what it saves
		{10 * time.Minute, 3000 * 24 * time.Hour, Most},
		{time.Second, time.Second, Least},
	} {
		got := Best(row.cost, row.mean)
		if d := got - row.want; d < -90*time.Second || d > 90*time.Second {
			t.Errorf("saves of %v, a loss every %v: every %v, want about %v", row.cost, row.mean, got, row.want)
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
		mean := time.Duration(1+random.IntN(90*24)) * time.Hour
		cost := time.Duration(1+random.IntN(1200)) * time.Second
		if cost > mean/4 {
			continue
		}
		best := Best(cost, mean)
		if best == Least || best == Most {
			continue
		}
		of := func(factor float64) float64 { return lost(best.Seconds()*factor, cost.Seconds(), mean.Seconds()) }
		for _, factor := range []float64{0.5, 0.9, 1.1, 2} {
			if of(factor) < of(1)*0.999 {
				t.Fatalf("saves of %v, a loss every %v: every %v loses %.5f, and %v times that %.5f", cost, mean, best, of(1), factor, of(factor))
			}
		}
	}
}

func TestMeanBetween(t *testing.T) {
	day := 24 * time.Hour
	for _, row := range []struct {
		watched time.Duration
		losses  uint32
		want    time.Duration
	}{{0, 0, 30 * day}, {-day, 0, 30 * day}, {300 * day, 0, 330 * day}, {70 * day, 9, 10 * day}, {0, 1, 15 * day}} {
		if got := MeanBetween(row.watched, row.losses); got != row.want {
			t.Errorf("%d losses in %v: one every %v, want %v", row.losses, row.watched, got, row.want)
		}
	}
}
