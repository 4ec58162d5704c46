package profile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive is a profile that asks every interval about every moment.
type naive struct {
	capacity []int64
	taken    []taken
}

type taken struct {
	Interval
	amounts []int64
}

func (n *naive) at(time int64) []int64 {
	free := slices.Clone(n.capacity)
	for _, t := range n.taken {
		if t.From <= time && (time < t.To || t.To == Forever) {
			for kind := range free {
				free[kind] -= t.amounts[kind]
			}
		}
	}
	return free
}

const horizon = 60

// TestAgainstNaive: whatever is taken and given back, the profile says what the naive one
// says of each moment and each interval, and has no more steps than it needs.
func TestAgainstNaive(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		kinds := 1 + random.IntN(3)
		amounts := func(most int64) []int64 {
			a := make([]int64, kinds)
			for i := range a {
				a[i] = random.Int64N(most)
			}
			return a
		}
		var p Profile
		p.Add(amounts(3)) // another lane, which stays as it is
		model := naive{capacity: amounts(12)}
		lane := p.Add(model.capacity)
		for range 40 {
			if len(model.taken) > 0 && random.IntN(3) == 0 {
				at := random.IntN(len(model.taken))
				gone := model.taken[at]
				p.Give(lane, gone.From, gone.To, gone.amounts)
				model.taken = slices.Delete(model.taken, at, at+1)
			} else {
				from := random.Int64N(horizon)
				new := taken{Interval{from, from + random.Int64N(20)}, amounts(4)}
				if random.IntN(6) == 0 {
					new.To = Forever
				}
				p.Take(lane, new.From, new.To, new.amounts)
				model.taken = append(model.taken, new)
			}
			compare(t, seed, &p, lane, &model, random, amounts(6))
		}
		if p.Steps(0) != 1 || p.Lanes() != 2 {
			t.Fatalf("seed %d: the other lane has %d steps", seed, p.Steps(0))
		}
		for _, gone := range model.taken {
			p.Give(lane, gone.From, gone.To, gone.amounts)
		}
		if p.Steps(lane) != 1 {
			t.Fatalf("seed %d: %d steps when everything is given back", seed, p.Steps(lane))
		}
	}
}

func compare(t *testing.T, seed uint64, p *Profile, lane int, model *naive, random *rand.Rand, want []int64) {
	t.Helper()
	from := random.Int64N(horizon)
	to := from + 1 + random.Int64N(15)
	least := slices.Clone(model.at(from))
	for time := from; time < to; time++ {
		for kind, free := range model.at(time) {
			least[kind] = min(least[kind], free)
		}
	}
	if got := p.Least(lane, from, to, nil); !slices.Equal(got, least) {
		t.Fatalf("seed %d: from %d to %d %v is free, and it says %v", seed, from, to, least, got)
	}
	if fits := p.Fits(lane, from, to, want); fits != covers(least, want) {
		t.Fatalf("seed %d: %v from %d to %d: %t", seed, want, from, to, fits)
	}
	until := from
	for until < 2*horizon && covers(model.at(until), want) {
		until++
	}
	if got := p.Until(lane, from, want); got != until && (until < 2*horizon || got != Forever) {
		t.Fatalf("seed %d: %v is free from %d until %d, and it says %d", seed, want, from, until, got)
	}
	span := to - from
	holes := p.Holes(lane, from, span, want, nil)
	for time := from; time < from+2*horizon; time++ {
		fits := true
		for moment := time; moment < time+span && fits; moment++ {
			fits = covers(model.at(moment), want)
		}
		in := slices.ContainsFunc(holes, func(h Interval) bool { return h.From <= time && time < h.To })
		if in != fits {
			t.Fatalf("seed %d: %v for %d at %d: %t, holes %v", seed, want, span, time, fits, holes)
		}
	}
	for _, hole := range p.Holes(lane, from, Forever, want, nil) {
		if hole.To != Forever {
			t.Fatalf("seed %d: a hole for ever ends: %v", seed, hole)
		}
	}
	changes := p.Changes(lane, from, nil)
	for time := from + 1; time < 2*horizon; time++ {
		if changed := !slices.Equal(model.at(time), model.at(time-1)); changed != slices.Contains(changes, time) {
			t.Fatalf("seed %d: a change at %d: %t, it says %v", seed, time, changed, changes)
		}
	}
}

// BenchmarkHoles is one search on a lane with so many jobs that come and go.
func BenchmarkHoles(b *testing.B) {
	for _, jobs := range []int{10, 100, 1000, 10000} {
		var p Profile
		lane := p.Add([]int64{int64(jobs)})
		for i := range int64(jobs) {
			p.Take(lane, i, i+int64(jobs), []int64{1})
		}
		var holes []Interval
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			for b.Loop() {
				holes = p.Holes(lane, 0, int64(jobs), []int64{int64(jobs)/2 + 1}, holes[:0])
			}
		})
	}
}
