package clienttest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *StubController) ListPeers(context.Context, *pb.ListPeersRequest) (*pb.ListPeersResponse, error) {
	return &pb.ListPeersResponse{Term: 7, AppliedIndex: 120, Level: 1, Peers: []*pb.Peer{
		{Name: "c1", Address: "c1.lab:6818", Voter: true, Leader: true, Reachable: true, Version: "v1", Level: 1, AppliedIndex: 120},
		{Name: "c2", Address: "c2.lab:6818", Voter: true, Problem: "connection refused: look at gctld there", LastContactMs: 5000},
		{Name: "c3", Address: "c3.lab:6818", Reachable: true, Version: "v1", Level: 1, AppliedIndex: 99},
	}}, nil
}

func (s *StubController) AddPeer(_ context.Context, request *pb.AddPeerRequest) (*pb.AddPeerResponse, error) {
	s.wrote(request)
	if request.GetName() == "c9" {
		return nil, status.Error(codes.FailedPrecondition, "controller c9 cannot be reached")
	}
	return &pb.AddPeerResponse{}, nil
}

func (s *StubController) RemovePeer(_ context.Context, request *pb.RemovePeerRequest) (*pb.RemovePeerResponse, error) {
	s.wrote(request)
	return &pb.RemovePeerResponse{}, nil
}

func (s *StubController) TransferLeadership(_ context.Context, request *pb.TransferLeadershipRequest) (*pb.TransferLeadershipResponse, error) {
	s.wrote(request)
	return &pb.TransferLeadershipResponse{Leader: "c2"}, nil
}
