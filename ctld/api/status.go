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
	view, now := s.cluster.View(), s.loops.Sessions().Now()
	census := view.Census()
	answer := &pb.StatusResponse{
		AnsweredBy: cmp.Or(from.via, s.cluster.Name()), Leader: s.cluster.Leader(), Term: s.cluster.Term(), AppliedIndex: view.Index(),
		Level: uint32(view.Level()), Peers: peers.GetPeers(), Leases: s.leases(view, now),
		JobsWaiting: clampCount(census.Waiting), JobsRunning: clampCount(census.Running), JobsEnding: clampCount(census.Ending),
	}
	answer.Problems = s.problems(view, answer, now)
	return answer, nil
}

// clampCount keeps a count of tasks, of which there may be more than fit.
func clampCount(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

// leases are those of the registered nodes, by name. left_ms counts to the end
// of the longest lease that this leader granted; of a node that it granted
// none, former leaders may have: that counts as one begun now.
func (s *Server) leases(view *state.View, now time.Time) []*pb.NodeLease {
	longest := time.Duration(view.LongestLeaseS()) * time.Second
	sessions := s.loops.Sessions()
	var leases []*pb.NodeLease
	for node := range view.Nodes() {
		if node.Inventory == nil {
			continue
		}
		shown := &pb.NodeLease{Node: node.Name, AgeMs: -1, LeftMs: longest.Milliseconds()}
		if link := sessions.Get(node.Name); link != nil {
			shown.Connected, shown.FrozenParts = true, uint32(len(link.Frozen()))
		}
		if until := sessions.LeaseUntil(node.Name); !until.IsZero() {
			shown.LeftMs = until.Sub(now).Milliseconds()
		}
		if seen := sessions.LastSeen(node.Name); !seen.IsZero() {
			shown.AgeMs = max(now.Sub(seen).Milliseconds(), 0)
		}
		leases = append(leases, shown)
	}
	return leases
}
