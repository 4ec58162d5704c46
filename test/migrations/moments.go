package main

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container/programs"
)

// moment is when a job is moved.
type moment struct {
	early bool          // as soon as it runs, be it ready or not
	after time.Duration // of that, or of when it continued after the move before
}

// longestWait bounds the moments that are drawn.
const longestWait = 2500 * time.Millisecond

// momentsOf returns when a program is moved in a round: there and back, or as often
// as it says, and the second time it is moved once more, at once.
func momentsOf(p *programs.Program, round int) []moment {
	moments := firstOf(p, round)
	if p.Refused != nil {
		return moments
	}
	moves := p.Moves
	if round == 1 {
		moves++
	}
	for len(moments) < moves {
		moments = append(moments, moment{})
	}
	return moments
}

// firstOf returns the first moments. In the first round the program is at its work,
// in the second it has just begun; all later ones are drawn, for a program and round
// always the same.
func firstOf(p *programs.Program, round int) []moment {
	if p.Refused != nil {
		return []moment{{after: 300 * time.Millisecond}}
	}
	switch round {
	case 0:
		return []moment{{after: 300 * time.Millisecond}, {after: time.Second}}
	case 1:
		return []moment{{early: true}, {}}
	}
	seed := fnv.New64()
	_, _ = seed.Write([]byte(p.Name))
	r := rand.New(rand.NewPCG(seed.Sum64(), uint64(round)))
	draw := func() time.Duration { return time.Duration(r.Int64N(int64(longestWait))) }
	return []moment{{early: r.IntN(4) == 0, after: draw()}, {after: draw()}}
}
