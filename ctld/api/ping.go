package api

import (
	"context"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Ping says who answers and who leads, and how far this controller is. Any
// controller answers, for itself.
func (s *Controller) Ping(ctx context.Context, _ *pb.PingRequest) (*pb.PingResponse, error) {
	if _, err := s.who(ctx); err != nil {
		return nil, err
	}
	answer := &pb.PingResponse{
		Peer: s.cluster.Name(), Role: "follower", Leader: s.cluster.Leader(), Version: s.options.Version,
		Term: s.cluster.Term(), AppliedIndex: s.cluster.AppliedIndex(), CommitIndex: s.cluster.CommitIndex(),
		Level: s.options.Level, LastContactMs: contactMS(s.cluster.LastContact()), TimeMs: time.Now().UnixMilli(), Cluster: s.cluster.View().Policy().ClusterName,
	}
	if s.cluster.IsLeader() {
		answer.Role = "leader"
	}
	return answer, nil
}

// contactMS is the time since the last contact with the leader; -1 = never.
func contactMS(since time.Duration) int64 {
	if since < 0 {
		return -1
	}
	return since.Milliseconds()
}
