package fairshare

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const day = 24 * 3600

// TestRoots: each factor is the root of the one before.
func TestRoots(t *testing.T) {
	const places = 400
	value := new(big.Int).Lsh(big.NewInt(1), places-1)
	for k, root := range roots {
		value.Sqrt(new(big.Int).Lsh(value, places))
		rounded := new(big.Int).Add(value, new(big.Int).Lsh(big.NewInt(1), places-65))
		rounded.Rsh(rounded, places-64)
		if rounded.Uint64() != root {
			t.Errorf("2^(-1/2^%d) is %#x, not %#x", k+1, rounded.Uint64(), root)
		}
	}
}

// TestDecay: "half of the original value cleared at age PriorityDecayHalfLife"
// (slurm.conf(5)).
func TestDecay(t *testing.T) {
	for _, test := range []struct {
		usage, elapsedMS int64
		halfLifeS        uint32
		want             int64
	}{
		{1 << 40, 7 * day * 1000, 7 * day, 1 << 39},
		{1 << 40, 14 * day * 1000, 7 * day, 1 << 38},
		{1 << 40, 40 * 7 * day * 1000, 7 * day, 1},
		{1 << 40, 41 * 7 * day * 1000, 7 * day, 0},
		{1 << 62, 0, 7 * day, 1 << 62},
		{1 << 62, -5, 7 * day, 1 << 62},
		{1_000_000, 3500 * day, 7 * day, 707106}, // half of a half-life: 1/√2
		{12345, 1 << 50, 0, 12345},
		{12345, 1 << 50, NoDecay, 12345},
		{math.MaxInt64, math.MaxInt64, 60, 0},
		{math.MaxInt64, math.MaxInt64, NoDecay - 1, 0},
		{math.MaxInt64, 1, NoDecay - 1, 9223372036853287287}, // 2^63 · (1 - ln 2 / 4.29e12)
		{-3, 1, 60, 0},
	} {
		if got := Decay(test.usage, test.elapsedMS, test.halfLifeS); got != test.want {
			t.Errorf("Decay(%d, %d ms, %d s) = %d, want %d", test.usage, test.elapsedMS, test.halfLifeS, got, test.want)
		}
	}
}

// TestDecayInSteps: decay in many steps is decay in one, but for what is
// rounded down at each, and never more.
func TestDecayInSteps(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		halfLife := 60 + r.Uint32N(60*day)
		usage := r.Int64N(1 << (1 + r.IntN(62)))
		steps, at, total := 1+r.IntN(50), usage, int64(0)
		for range steps {
			elapsed := r.Int64N(int64(halfLife) * 100)
			total += elapsed
			next := Decay(at, elapsed, halfLife)
			if next > at {
				t.Fatalf("seed %d: %d grows to %d", seed, at, next)
			}
			at = next
		}
		once := Decay(usage, total, halfLife)
		if slack := int64(steps) + usage>>40; at > once+slack || at < once-slack {
			t.Errorf("seed %d: %d after %d ms with a half-life of %d s is %d, in %d steps %d", seed, usage, total, halfLife, once, steps, at)
		}
		want := float64(usage) * math.Exp2(-float64(total)/1000/float64(halfLife))
		if float64(once) > want*1.000001+1 || float64(once) < want*0.999999-1 {
			t.Errorf("seed %d: %d, want %g", seed, once, want)
		}
	}
}

func TestHeld(t *testing.T) {
	for _, test := range []struct {
		elapsedMS int64
		halfLifeS uint32
		want      int64 // microseconds
	}{
		{1000, 0, 1_000_000},
		{1000, NoDecay, 1_000_000},
		{0, 60, 0},
		{-1, 60, 0},
		// One half-life: (1 - 1/2) / ln 2 of it.
		{60_000, 60, 43_280_851},
		{math.MaxInt64, 60, 86_561_702}, // forever: 1 / ln 2 of it
		{1, 7 * day, 1000 - 1},
	} {
		if got := Held(test.elapsedMS, test.halfLifeS); got > test.want+1 || got < test.want-1 {
			t.Errorf("Held(%d ms, %d s) = %d, want %d", test.elapsedMS, test.halfLifeS, got, test.want)
		}
	}
}

// TestUsedInTwoParts: a run that is counted in two parts has used what it has
// when counted whole.
func TestUsedInTwoParts(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		halfLife := 60 + r.Uint32N(60*day)
		billing := 1 + r.Int64N(1<<(1+r.IntN(40)))
		from := r.Int64N(1 << 40)
		middle := from + r.Int64N(30*day*1000)
		to := middle + r.Int64N(30*day*1000)
		whole := Used(billing, from, to, halfLife)
		parts := Add(Decay(Used(billing, from, middle, halfLife), to-middle, halfLife), Used(billing, middle, to, halfLife))
		if slack := 4 + whole>>20; parts > whole+slack || parts < whole-slack {
			t.Errorf("seed %d: %d in one, %d in two parts", seed, whole, parts)
		}
	}
}

func TestUsed(t *testing.T) {
	for _, test := range []struct {
		billing, from, to int64
		halfLifeS         uint32
		want              int64
	}{
		{1_000_000, 0, 1000, 0, 1 << unitBits},               // a CPU for a second
		{1_000_000, 5000, 3_605_000, 0, 3600 << unitBits},    // and for an hour
		{2_500_000, 0, 1000, 0, 2560},                        // two and a half
		{0, 0, 1000, 0, 0},                                   // nothing is billed
		{1_000_000, 1000, 0, 0, 0},                           // the clock was set back
		{math.MaxInt64, 0, math.MaxInt64, 0, MaxUsage},       // more than fits
		{math.MaxInt64, math.MinInt64, 1 << 62, 0, MaxUsage}, // and times that are absurd
	} {
		if got := Used(test.billing, test.from, test.to, test.halfLifeS); got != test.want {
			t.Errorf("Used(%d, %d, %d, %d) = %d, want %d", test.billing, test.from, test.to, test.halfLifeS, got, test.want)
		}
	}
	if got := Add(MaxUsage, math.MaxInt64); got != MaxUsage {
		t.Errorf("the sum is %d", got)
	}
}

func BenchmarkDecay(b *testing.B) {
	for b.Loop() {
		Decay(1<<60, 123_456_789, 7*day)
	}
}
