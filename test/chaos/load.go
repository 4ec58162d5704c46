package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The pace of the load.
const (
	meanPause  = 350 * time.Millisecond // between submissions
	maxClients = 12                     // submitting at once
	slowFrom   = 3 * time.Minute        // weather that leaves time for jobs that take minutes
)

// load is the stream of jobs.
type load struct {
	cluster *cluster
	random  *rand.Rand
	live    atomic.Int64 // jobs in the queue, by the last look
	clients sync.WaitGroup
	after   sync.WaitGroup // what is asked about accepted jobs
}

// run submits jobs until ctx ends, and waits for all clients.
func (l *load) run(ctx context.Context) {
	turns := make(chan struct{}, maxClients)
	for number := 1; ; number++ {
		select {
		case <-ctx.Done():
			l.clients.Wait()
			l.after.Wait()
			return
		case <-time.After(min(time.Duration(l.random.ExpFloat64()*float64(meanPause)), 4*meanPause)):
		}
		if l.live.Load() >= int64(l.cluster.options.live) {
			continue
		}
		select {
		case turns <- struct{}{}:
		default:
			continue // all clients wait for an answer
		}
		j := pick(l.random, l.cluster.kinds(), l.cluster.options.length > slowFrom)
		r := rand.New(rand.NewPCG(l.random.Uint64(), 0))
		if j.after != "" {
			known := l.cluster.journal.recent()
			if len(known) == 0 {
				<-turns
				continue // there is nothing to wait for yet
			}
			j.dependOn(r, known[r.IntN(len(known))])
		}
		l.clients.Go(func() {
			defer func() { <-turns }()
			s, u := l.cluster.submit(context.WithoutCancel(ctx), r, number, j)
			if s.Job != 0 && j.then != "" {
				l.after.Go(func() { l.cluster.follow(ctx, r, u, s, j) })
			}
		})
	}
}
