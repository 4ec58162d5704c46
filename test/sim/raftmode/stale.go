package raftmode

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// stale brings about a leader that does not know that it is none any more:
// the others' answers reach it late, so that it takes them for signs of life
// when these have long elected another. A job is cancelled by way of the
// others, and asked after at the former leader, whose word is old.
func (s *site) stale(rng *rand.Rand) {
	former := s.leader(rng)
	job := s.held(rng)
	if former == "" || job == 0 {
		s.t.Fatal("no leader, or no job")
	}
	for _, other := range s.c.names {
		s.c.fabric.slow(other, former, 850*time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	var ways [][2]string
	for _, other := range s.c.names {
		if other != former {
			ways = append(ways, [2]string{former, other})
		}
	}
	var asking sync.WaitGroup
	asking.Go(func() { s.closed(4*time.Second, false, ways...) })
	at := slices.Index(s.c.names, former)
	away := (at + 1) % len(s.c.names)
	asking.Go(func() { s.users.cancelAt(away, rand.New(rand.NewPCG(rng.Uint64(), 1)), job) })
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		asking.Go(func() { s.users.queryAt(at, job) })
	}
	asking.Wait()
	for _, other := range s.c.names {
		s.c.fabric.slow(other, former, 0)
	}
	time.Sleep(5 * time.Second)
}

// leader is who leads, by the word of the cluster.
func (s *site) leader(rng *rand.Rand) (name string) {
	s.users.again(rng, 40, func(ctx context.Context, c pb.ControllerClient) error {
		answer, err := c.ListPeers(ctx, &pb.ListPeersRequest{})
		for _, peer := range answer.GetPeers() {
			if peer.GetLeader() {
				name = peer.GetName()
			}
		}
		return err
	})
	return name
}

// held submits a job that waits until it is cancelled.
func (s *site) held(rng *rand.Rand) uint32 {
	return s.users.submit(rng, 0, uuid(rng), true, wait{})
}

// cancelAt cancels by way of one controller, again and again until it is
// answered.
func (u *users) cancelAt(at int, rng *rand.Rand, job uint32) {
	called, id := time.Now(), uuid(rng)
	o := history.Operation{Client: 1, Kind: history.Cancel, Job: job, Phase: history.Waiting}
	answered := false
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		answer, err := pb.NewControllerClient(u.conns[at]).Cancel(ctx, &pb.CancelRequest{RequestId: id, Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: job}}}})
		cancel()
		if err == nil {
			answered = true
			for _, one := range answer.GetResults() {
				o.Done = one.GetError() == "" || one.GetAlreadyDone()
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	u.record(o, called, answered)
}

// queryAt asks one controller once.
func (u *users) queryAt(at int, job uint32) {
	called := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	found, err := list(ctx, pb.NewControllerClient(u.conns[at]), &pb.JobFilter{Ids: []*pb.JobId{{Job: job}}, AllStates: true})
	o := history.Operation{Client: 2, Kind: history.Query, Job: job}
	for _, j := range found {
		o.Phase, o.Epoch = phaseOf(j), j.GetEpoch()
	}
	u.record(o, called, err == nil)
}
