package raftmode

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestWeather runs whole controllers through minutes of bad weather.
func TestWeather(t *testing.T) {
	seeds := prototest.Soak[uint64](2, 20)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, seed)
				defer s.stop()
				until := time.Now().Add(3 * time.Minute)
				var work sync.WaitGroup
				for client := range 4 {
					work.Go(func() { s.users.work(seed, client, until) })
				}
				work.Go(func() { s.weather(seed, until) })
				work.Wait()
				s.check(s.settle())
				s.same()
				t.Logf("%d requests, %d jobs, faults %v, %d pieces delivered, %d of them late",
					len(s.users.operations), len(s.users.jobs), s.faults, s.c.fabric.delivered.Load(), s.c.fabric.stalled.Load())
			})
		})
	}
}

// TestFormerLeader: one that was deposed and does not know it tells nobody
// what was so before.
func TestFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 5
		s := newSite(t, seed)
		defer s.stop()
		rng := rand.New(rand.NewPCG(seed, 9))
		for range prototest.Soak(4, 40) {
			s.stale(rng)
		}
		s.check(s.settle())
	})
}
