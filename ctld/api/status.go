package api

import (
	"cmp"
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Status tells how the cluster is: the leader's word.
func (s *Server) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	peers := s.peers.List(ctx)
	view, now := s.cluster.View(), time.Now()
	census := view.Census()
	answer := &pb.StatusResponse{
		AnsweredBy: cmp.Or(from.via, s.cluster.Name()), Leader: s.cluster.Leader(), Term: s.cluster.Term(), AppliedIndex: view.Index(),
		Level: uint32(view.Level()), Peers: peers.GetPeers(), Leases: s.leases(view, now),
		JobsWaiting: clampCount(census.Waiting), JobsRunning: clampCount(census.Running), JobsEnding: clampCount(census.Ending),
	}
	var own []string
	if s.options.Problems != nil {
		own = s.options.Problems()
	}
	answer.Problems = problems(view, answer, own, now)
	return answer, nil
}

// clampCount keeps a count of tasks, of which there may be more than fit.
func clampCount(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

// leases are those of the registered nodes, by name.
func (s *Server) leases(view *state.View, now time.Time) []*pb.NodeLease {
	lease := time.Duration(view.Policy().LeaseS) * time.Second
	sessions := s.loops.Sessions()
	var leases []*pb.NodeLease
	for node := range view.Nodes() {
		if node.Inventory == nil {
			continue
		}
		shown := &pb.NodeLease{Node: node.Name, Connected: sessions.Get(node.Name) != nil, AgeMs: -1}
		if seen := sessions.LastSeen(node.Name); !seen.IsZero() {
			shown.AgeMs = max(now.Sub(seen).Milliseconds(), 0)
			shown.LeftMs = lease.Milliseconds() - shown.AgeMs
		}
		leases = append(leases, shown)
	}
	return leases
}
