package api

import (
	"cmp"
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Status returns the state of the cluster as the leader knows it.
func (s *Controller) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	peers := s.peers.List(ctx)
	view, now := s.cluster.View(), s.loops.Sessions().Now()
	may := s.sightOf(from, view)
	census := view.CensusOf(may.sees)
	answer := &pb.StatusResponse{
		AnsweredBy: cmp.Or(from.via, s.cluster.Name()), Leader: s.cluster.Leader(), Term: s.cluster.Term(), AppliedIndex: view.Index(),
		Level: uint32(view.Level()), Peers: peers.GetPeers(), Leases: s.leases(view, now),
		JobsWaiting: clampCount(census.Waiting), JobsRunning: clampCount(census.Running), JobsEnding: clampCount(census.Ending),
	}
	answer.Problems = s.problems(view, answer, now)
	if may.hides("nodes") {
		answer.Leases = nil
	}
	if may.hides("nodes") || may.hides("events") || may.hides("jobs") {
		answer.Problems = nil // they describe nodes, and name what jobs left there
	}
	return answer, nil
}

// clampCount keeps a count of tasks within 32 bits.
func clampCount(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

// leases are those of the registered nodes, by name. left_ms counts to the end
// of the longest lease that this leader granted. If it granted a node none,
// former leaders may have: that counts as a lease that begins now.
func (s *Controller) leases(view *state.View, now time.Time) []*pb.NodeLease {
	longest := time.Duration(view.LongestLeaseS()) * time.Second
	sessions := s.loops.Sessions()
	var leases []*pb.NodeLease
	for node := range view.Nodes() {
		if node.Inventory == nil {
			continue
		}
		shown := &pb.NodeLease{Node: node.Name, AgeMs: -1, LeftMs: longest.Milliseconds()}
		if link := sessions.Get(node.Name); link != nil {
			shown.Connected, shown.FrozenAllocs = true, uint32(len(link.Frozen()))
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
