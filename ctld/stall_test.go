package ctld

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// BenchmarkSnapshotStall measures the longest time between two submissions that
// are answered, by clients that submit without a pause, with and without a
// snapshot of 100,000 waiting jobs being taken. One run compares both, because
// machines differ. The aim is that a snapshot adds less than 200 ms.
func BenchmarkSnapshotStall(b *testing.B) {
	server := startServer(b, configIn(shortDir(b)))
	fillQueue(b, server, 100_000)
	conn := connectTo(b, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	var last, longest atomic.Int64
	for range 8 {
		group.Go(func() {
			for ctx.Err() == nil {
				request := job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })
				if _, err := client.Submit(ctx, request); err != nil {
					continue
				}
				now := time.Now().UnixNano()
				if gap := now - last.Swap(now); gap > longest.Load() {
					longest.Store(gap)
				}
			}
		})
	}
	measure := func(during func()) time.Duration {
		last.Store(time.Now().UnixNano())
		longest.Store(0)
		during()
		return time.Duration(longest.Load())
	}
	time.Sleep(time.Second)
	b.ResetTimer()
	var without, with, took time.Duration
	for range b.N {
		begin := time.Now()
		with = max(with, measure(func() {
			if err := server.cluster.peer.Snapshot(); err != nil {
				b.Error(err)
			}
		}))
		took = time.Since(begin)
		without = max(without, measure(func() { time.Sleep(took) }))
	}
	b.StopTimer()
	cancel()
	group.Wait()
	b.ReportMetric(float64(without.Microseconds())/1000, "ms-without")
	b.ReportMetric(float64(with.Microseconds())/1000, "ms-with")
	b.ReportMetric(float64(took.Milliseconds()), "ms-snapshot")
}

// fillQueue submits held jobs, each with a name and a script of its own.
func fillQueue(b *testing.B, server *Server, jobs int) {
	b.Helper()
	var group sync.WaitGroup
	for worker := range 256 {
		group.Go(func() {
			for i := worker; i < jobs; i += 256 {
				command, err := state.SubmitFromSpec(&pb.JobSpec{
					Name: fmt.Sprintf("job-%d", i), Script: fmt.Appendf(nil, "#!/bin/sh\nexec train --seed %d\n", i), WorkDirectory: "/tmp", Hold: true,
					Environment: []string{"HOME=/home/u", "PATH=/usr/bin"},
				}, &pb.Identity{Uid: 1000, Gid: 1000, User: "u"})
				if err == nil {
					_, err = server.cluster.Propose(context.Background(), command, state.RequestID(uuid.New()))
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
