package api

import (
	"context"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Ping says who answers and who leads. Any controller answers, for itself.
func (s *Server) Ping(ctx context.Context, _ *pb.PingRequest) (*pb.PingResponse, error) {
	if _, err := s.who(ctx); err != nil {
		return nil, err
	}
	role := "follower"
	if s.cluster.IsLeader() {
		role = "leader"
	}
	return &pb.PingResponse{
		Peer: s.cluster.Name(), Role: role, Leader: s.cluster.Leader(),
		AppliedIndex: s.cluster.AppliedIndex(), Version: s.options.Version, Term: s.cluster.Term(),
	}, nil
}
