package registry

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestParkBounds: of 10,000 parks at most ten take longer than their bound, which at the
// median is at most twice the median time. Where the longest of a thousand parks are
// themselves more than twice the median no bound is both; then the first holds.
func TestParkBounds(t *testing.T) {
	const parks, gib = 10_000, 1 << 30
	normal := func(random *rand.Rand, sigma float64) float64 { return math.Exp(sigma * random.NormFloat64()) }
	pareto := func(random *rand.Rand, alpha float64) float64 { return math.Pow(1-random.Float64(), -1/alpha) }
	for _, test := range []struct {
		name  string
		tight bool // the median bound is at most twice the median time
		times func(random *rand.Rand, i int) float64
	}{
		{"always the same", true, func(*rand.Rand, int) float64 { return 1 }},
		{"log-normal, a tenth", true, func(r *rand.Rand, _ int) float64 { return normal(r, 0.1) }},
		{"log-normal, a seventh", true, func(r *rand.Rand, _ int) float64 { return normal(r, 1./7) }},
		{"log-normal, a fifth", false, func(r *rand.Rand, _ int) float64 { return normal(r, 1./5) }},
		{"a heavy tail: Pareto 14", true, func(r *rand.Rand, _ int) float64 { return pareto(r, 14) }},
		{"one in fifty takes half as long again", true, func(r *rand.Rand, _ int) float64 {
			if r.IntN(50) == 0 {
				return 1.5 * normal(r, 0.05)
			}
			return normal(r, 0.05)
		}},
		{"slower by half, little by little", true, func(r *rand.Rand, i int) float64 { return (1 + 0.5*float64(i)/parks) * normal(r, 0.1) }},
		{"faster by half", true, func(r *rand.Rand, i int) float64 { return (1 - 0.5*float64(i)/parks) * normal(r, 0.05) }},
		{"up and down each 2,000", true, func(r *rand.Rand, i int) float64 {
			return (1 + 0.2*math.Sin(float64(i)*math.Pi/1000)) * normal(r, 0.08)
		}},
		{"three times slower from one day to the next", true, func(r *rand.Rand, i int) float64 {
			if i > parks/2 {
				return 3 * normal(r, 0.1)
			}
			return normal(r, 0.1)
		}},
		{"log-normal, a half", false, func(r *rand.Rand, _ int) float64 { return normal(r, 0.5) }},
		{"a very heavy tail: Pareto 3", false, func(r *rand.Rand, _ int) float64 { return pareto(r, 3) }},
	} {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 1))
			var times ParkTimes
			var took, bounds []time.Duration
			late := 0
			for i := range parks {
				size := ParkSize{Model: "h200"}
				if i%2 == 0 {
					size.GPUBytes = gib + random.Uint64N(gib-1) // one class
				}
				bound, _ := times.Bound(size)
				// The truth is not what is expected of a park.
				truth := 0.02
				if size.GPUBytes > 0 {
					truth = 0.15 + float64(size.GPUBytes)/(3*gib)
				}
				time := seconds(truth * test.times(random, i))
				if time > bound {
					late++
				}
				times.Add(size, time)
				if i%2 == 0 {
					took, bounds = append(took, time), append(bounds, bound)
				}
			}
			slices.Sort(took)
			slices.Sort(bounds)
			ratio := bounds[len(bounds)/2].Seconds() / took[len(took)/2].Seconds()
			needed := took[len(took)-len(took)/1000-1].Seconds() / took[len(took)/2].Seconds()
			if late > parks/1000 || test.tight && ratio > 2 {
				t.Errorf("%s, seed %d: %d of %d took longer than their bound, which is %.2f times as long at the median (one in a thousand takes %.2f times)", test.name, seed, late, parks, ratio, needed)
			} else if seed == 0 {
				t.Logf("%-45s %2d late, bound %5.2f times the median; one in a thousand takes %.2f times", test.name, late, ratio, needed)
			}
		}
	}
}

func TestParkBoundsOfFew(t *testing.T) {
	var times ParkTimes
	cpu, gpu := ParkSize{}, ParkSize{Model: "h200", GPUBytes: 8 << 30}
	if bound, parks := times.Bound(cpu); bound > 2*time.Second || bound < time.Second || parks != 0 {
		t.Errorf("nothing measured: %v of %d", bound, parks)
	}
	if bound, _ := times.Bound(gpu); bound < 2*time.Second || bound > 10*time.Second {
		t.Errorf("nothing measured, 8 GiB on GPUs: %v", bound)
	}
	for range 200 {
		times.Add(gpu, 4*time.Second)
	}
	half, twice := ParkSize{Model: "h200", GPUBytes: 4 << 30}, ParkSize{Model: "h200", GPUBytes: 16 << 30}
	got := func(s ParkSize) time.Duration { bound, _ := times.Bound(s); return bound.Round(time.Second / 10) }
	if got(gpu) != 5200*time.Millisecond || got(half) < 2*time.Second || got(twice) < 10*time.Second {
		t.Errorf("bounds %v, of half the size %v, of twice the size %v", got(gpu), got(half), got(twice))
	}
	if other := got(ParkSize{Model: "a100", GPUBytes: 8 << 30}); other > 10*time.Second {
		t.Errorf("another model, of which nothing is known: %v", other)
	}
	if bound, _ := times.Bound(cpu); bound < time.Second {
		t.Errorf("a job without GPUs, of which nothing is known: %v", bound)
	}
	// One that takes longer raises it at once, and for a while.
	times.Add(gpu, 20*time.Second)
	if got(gpu) < 20*time.Second {
		t.Errorf("after a longer one: %v", got(gpu))
	}
	// It survives on a disk, and is small.
	for range 100_000 {
		times.Add(gpu, 4*time.Second)
	}
	if got(gpu) != 4*time.Second {
		t.Errorf("what is long ago counts: %v", got(gpu))
	}
	text, err := json.Marshal(times)
	var back ParkTimes
	if err != nil || len(text) > 4096 || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(times, back) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for size := range 100 {
		times.Add(ParkSize{Model: string(rune('a' + size)), GPUBytes: 1 << 40}, time.Second)
	}
	if len(times.Classes) > parkClasses {
		t.Errorf("%d classes", len(times.Classes))
	}
	for _, bound := range []time.Duration{0, 17 * time.Millisecond, 3 * time.Second, 200 * time.Hour} {
		if told := Told(min(bound, 24*time.Hour)); told < bound && bound < 24*time.Hour || told > bound*23/20+time.Millisecond {
			t.Errorf("%v is told as %v", bound, told)
		}
	}
}
