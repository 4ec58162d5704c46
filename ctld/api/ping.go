package api

import (
	"context"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Ping says who answers and who leads, and how far this controller is. Any
// controller answers, for itself.
func (s *Server) Ping(ctx context.Context, _ *pb.PingRequest) (*pb.PingResponse, error) {
	if _, err := s.who(ctx); err != nil {
		return nil, err
	}
	answer := &pb.PingResponse{
		Peer: s.cluster.Name(), Role: "follower", Leader: s.cluster.Leader(), Version: s.options.Version,
		Term: s.cluster.Term(), AppliedIndex: s.cluster.AppliedIndex(), CommitIndex: s.cluster.CommitIndex(),
		LastContactMs: -1, TimeMs: time.Now().UnixMilli(),
	}
	if s.cluster.IsLeader() {
		answer.Role, answer.LastContactMs = "leader", 0
	} else if heard := s.cluster.LastContact(); !heard.IsZero() {
		answer.LastContactMs = max(time.Since(heard).Milliseconds(), 0)
	}
	return answer, nil
}
