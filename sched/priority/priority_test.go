package priority

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestDocumentedExample has the weights of the configuration example of
// priority_multifactor.html, and jobs whose factors are known.
func TestDocumentedExample(t *testing.T) {
	const (
		age, fairShare, jobSize, partition, qos = 1000, 10000, 1000, 1000, 0
		maxAgeS                                 = 14 * 24 * 3600
		dayMS                                   = 24 * 3600 * 1000
	)
	for _, test := range []struct {
		name              string
		waitedMS          int64
		rank, users       uint32
		size              Size
		factor            uint32 // of the partition, of 10
		site, nice        int32
		want              uint32
		ages, fair, sizes uint64
	}{
		// All factors are 1: the weights themselves.
		{"all", 14 * dayMS, 4, 4, Size{Nodes: 8, ClusterNodes: 8, CPUs: 64, ClusterCPUs: 64}, 10, 0, 0, 13000, 1000, 10000, 1000},
		// A week of two; rank 3 of 4; 2 nodes of 8; half of the partition factor.
		{"half", 7 * dayMS, 3, 4, Size{Nodes: 2, ClusterNodes: 8, CPUs: 2, ClusterCPUs: 64}, 5, 0, 0, 500 + 7500 + 250 + 500, 500, 7500, 250},
		// The age does not grow after PriorityMaxAge.
		{"old", 1000 * dayMS, 1, 4, Size{Nodes: 1, ClusterNodes: 8, CPUs: 32, ClusterCPUs: 64}, 10, 0, 0, 1000 + 2500 + 500 + 1000, 1000, 2500, 500},
		// "positive values negatively impact a job's priority".
		{"nice", 0, 4, 4, Size{Nodes: 1, ClusterNodes: 8}, 0, 0, 100, 10000 + 125 - 100, 0, 10000, 125},
		{"site", 0, 4, 4, Size{Nodes: 1, ClusterNodes: 8}, 0, 70, 0, 10000 + 125 + 70, 0, 10000, 125},
		// 0 is for jobs that are held.
		{"never 0", 0, 0, 4, Size{}, 0, 0, 2147483645, 1, 0, 0, 0},
	} {
		sum := Age(test.waitedMS, maxAgeS).Times(age).
			Plus(Rank(test.rank, test.users).Times(fairShare)).
			Plus(test.size.Large().Times(jobSize)).
			Plus(Normalized(test.factor, 10).Times(partition)).
			Plus(Normalized(9, 9).Times(qos))
		if got := Sum(sum, test.site, test.nice); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
		for i, pair := range [][2]uint64{
			{Age(test.waitedMS, maxAgeS).Times(age).Round(), test.ages}, {Rank(test.rank, test.users).Times(fairShare).Round(), test.fair},
			{test.size.Large().Times(jobSize).Round(), test.sizes},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: factor %d is %d, want %d", test.name, i, pair[0], pair[1])
			}
		}
	}
}

// TestSignificantDigits: "one job could have a fair-share factor of .59534 and
// another job could have a fair-share factor of .50002. If the fair-share
// weight is only set to 10, both jobs would have the same fair-share priority."
func TestSignificantDigits(t *testing.T) {
	high, low := Fraction{59534, 100000}, Fraction{50002, 100000}
	if a, b := Sum(high.Times(10), 0, 0), Sum(low.Times(10), 0, 0); a != 5 || b != 5 {
		t.Errorf("%d and %d, want 5", a, b)
	}
	if a, b := Sum(high.Times(1000), 0, 0), Sum(low.Times(1000), 0, 0); a != 595 || b != 500 {
		t.Errorf("%d and %d, want 595 and 500", a, b)
	}
}

func TestSize(t *testing.T) {
	cluster := func(nodes, cpus, minutes uint64) Size {
		return Size{Nodes: nodes, CPUs: cpus, ClusterNodes: 4, ClusterCPUs: 64, TimeLimitMinutes: minutes}
	}
	for _, test := range []struct {
		name string
		got  Fraction
		want float64
	}{
		{"all the nodes", cluster(4, 4, 1).Large(), 1},
		{"all the CPUs", cluster(1, 64, 1).Large(), 1},
		{"half the nodes", cluster(2, 2, 1).Large(), 0.5},
		{"more CPUs than its nodes", cluster(1, 32, 1).Large(), 0.5},
		{"the single node job, small", cluster(1, 16, 1).Small(), 1},
		{"all the nodes, small", cluster(4, 4, 1).Small(), 0},
		{"more than all, small", cluster(9, 4, 1).Small(), 0},
		{"two of four, small", cluster(2, 4, 1).Small(), 2.0 / 3},
		// "a full-system job with a time limit of one will receive a job size
		// factor of 1.0"
		{"full system, one minute", cluster(4, 64, 1).RelativeToTime(), 1},
		{"full system of few tasks", cluster(4, 4, 1).RelativeToTime(), 1},
		{"full system, ten minutes", cluster(4, 64, 10).RelativeToTime(), 0.1},
		// "a tiny job with a large time limit … close to 0.0"
		{"tiny and long", Size{Nodes: 1, CPUs: 1, ClusterNodes: 64, ClusterCPUs: 64, TimeLimitMinutes: 10000}.RelativeToTime(), 1.0 / 640_000},
		{"unlimited", cluster(4, 64, math.MaxUint64).RelativeToTime(), 0},
		{"no cluster, large", Size{Nodes: 1, CPUs: 1}.Large(), 0},
		{"no cluster, relative", Size{Nodes: 1, CPUs: 1}.RelativeToTime(), 0},
	} {
		if got := test.got.Float(); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestTimes: a weighted factor is the fraction times the weight, to the nearest
// 2^-24.
func TestTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		f := Fraction{r.Uint64() >> r.IntN(64), r.Uint64() >> r.IntN(64)}
		weight := r.Uint32() >> r.IntN(32)
		want := new(big.Int)
		if f.Whole > 0 {
			want.SetUint64(min(f.Part, f.Whole))
			want.Mul(want, new(big.Int).Lsh(big.NewInt(int64(weight)), places))
			want.Add(want, new(big.Int).SetUint64(f.Whole/2))
			want.Quo(want, new(big.Int).SetUint64(f.Whole))
		}
		if got := f.Times(weight); int64(got) != want.Int64() {
			t.Fatalf("%v times %d: %d, want %v", f, weight, got, want)
		}
	}
}

func TestSum(t *testing.T) {
	full := Fraction{1, 1}.Times(math.MaxUint32)
	for _, test := range []struct {
		factors    Weighted
		site, nice int32
		want       uint32
	}{
		{0, 0, 0, 1},
		{full, 0, 0, math.MaxUint32},
		{full, 1, 0, math.MaxUint32}, // 32 bits
		{full.Plus(full), 0, math.MaxInt32, math.MaxUint32},
		{0, math.MinInt32, math.MaxInt32, 1},
		{0, 0, math.MinInt32, 1 << 31},
		{Fraction{1, 3}.Times(1).Plus(Fraction{2, 3}.Times(1)), 0, 0, 1},
		{Fraction{1, 3}.Times(10).Plus(Fraction{2, 3}.Times(10)), 0, 0, 10}, // whole but for the rounding
		{Fraction{9, 10}.Times(11), 0, 0, 9},                                // 9.9 is cut
	} {
		if got := Sum(test.factors, test.site, test.nice); got != test.want {
			t.Errorf("Sum(%d, %d, %d) = %d, want %d", test.factors, test.site, test.nice, got, test.want)
		}
	}
}
