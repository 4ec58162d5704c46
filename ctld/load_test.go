package ctld

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// BenchmarkJobs takes jobs through their whole life, over sockets and disk:
// submitted by several clients, placed, ordered, ended, acknowledged.
func BenchmarkJobs(b *testing.B) {
	server := startServer(b, configIn(shortDir(b)))
	conn := connectTo(b, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	node := newFakeNode(b, "n1", 0)
	b.Cleanup(node.connect(conn))
	go func() {
		for range node.orders { // nobody else reads them
		}
	}()
	b.ResetTimer()
	begin, entries := time.Now(), server.cluster.AppliedIndex()
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for i := worker; i < b.N; i += 16 {
				if _, err := client.Submit(context.Background(), job()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	submitted := time.Since(begin)
	for counts := server.cluster.View().Counts(); counts.Waiting+counts.Active > 0; counts = server.cluster.View().Counts() {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(b.N)/submitted.Seconds(), "submitted/s")
	b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "finished/s")
	b.ReportMetric(float64(server.cluster.AppliedIndex()-entries)/float64(b.N), "entries/job")
}

// BenchmarkSubmit compares, in one run, submissions one after another with
// many at once: what is proposed at the same time shares a write to disk.
func BenchmarkSubmit(b *testing.B) {
	server := startServer(b, configIn(shortDir(b)))
	conn := connectTo(b, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	one := func() {
		request := job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })
		if _, err := client.Submit(context.Background(), request); err != nil {
			b.Error(err)
		}
	}
	one()
	b.ResetTimer()
	begin := time.Now()
	for range b.N {
		one()
	}
	alone := time.Since(begin)
	const clients = 64
	begin = time.Now()
	var group sync.WaitGroup
	for worker := range clients {
		group.Go(func() {
			for i := worker; i < b.N; i += clients {
				one()
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(alone.Microseconds())/float64(b.N), "alone-us")
	b.ReportMetric(float64(alone)/float64(time.Since(begin)), "ratio")
}

// BenchmarkPeers compares, in one run, submissions by many clients at once to
// one controller with those to three on the same machine, through the one that
// leads and through one that does not.
func BenchmarkPeers(b *testing.B) {
	alone := startCluster(b, 1)
	three := startCluster(b, 3)
	rate := func(conn *grpc.ClientConn) float64 {
		client := pb.NewControllerClient(conn)
		const clients = 64
		var group sync.WaitGroup
		begin := time.Now()
		for worker := range clients {
			group.Go(func() {
				for i := worker; i < b.N; i += clients {
					if _, err := client.Submit(context.Background(), job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return float64(b.N) / time.Since(begin).Seconds()
	}
	leader, follower := three.leader(), three.followers()[0]
	b.ResetTimer()
	one, direct, through := rate(alone.conns["c1"]), rate(three.conns[leader]), rate(three.conns[follower])
	b.ReportMetric(one, "one/s")
	b.ReportMetric(direct, "three/s")
	b.ReportMetric(through, "through-follower/s")
	b.ReportMetric(direct/one, "ratio")
}
