package api

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Peers is what the handlers need of the other controllers.
type Peers interface {
	// Leader is the connection to the controller that leads; nil when none
	// does, or this one.
	Leader(lane peerlink.Lane) (*grpc.ClientConn, peerlink.Route, error)
	IsMember(name string) bool
	List(ctx context.Context) *pb.ListPeersResponse
	Add(ctx context.Context, name, address string) error
	Remove(ctx context.Context, name string, force bool) (self bool, err error)
	Transfer(ctx context.Context, to string) (leader string, err error)
	Hello(ctx context.Context, caller string) *pb.HelloResponse
	StartCatchUp(caller string, request *pb.StartCatchUpRequest) error
	EndCatchUp(caller string) error
	CheckLeader(ctx context.Context, request *pb.CheckLeaderRequest) *pb.CheckLeaderResponse
	// Sign asks the others for a certificate: one has the authority's key.
	Sign(ctx context.Context, request *pb.SignRequest) (*pb.SignResponse, error)
}

// addLimit is how long a request to add a controller waits for its vote.
const addLimit = 20 * time.Second

// ListPeers returns all controllers, each with its own answer.
func (s *Controller) ListPeers(ctx context.Context, _ *pb.ListPeersRequest) (*pb.ListPeersResponse, error) {
	if _, err := s.reader(ctx); err != nil {
		return nil, err
	}
	return s.peers.List(ctx), nil
}

// AddPeer makes a controller that was started with join a member. If it has not
// caught up in time it keeps catching up.
func (s *Controller) AddPeer(ctx context.Context, request *pb.AddPeerRequest) (*pb.AddPeerResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	if _, err := requestID(request.GetRequestId()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, addLimit)
	defer cancel()
	err := s.peers.Add(ctx, request.GetName(), request.GetAddress())
	if status.Code(err) == codes.DeadlineExceeded {
		err = nil // the list says that it has no vote yet
	}
	return &pb.AddPeerResponse{}, err
}

// RemovePeer removes a controller. One that leads hands the lead over first,
// and the request with it.
func (s *Controller) RemovePeer(ctx context.Context, request *pb.RemovePeerRequest) (*pb.RemovePeerResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	if _, err := requestID(request.GetRequestId()); err != nil {
		return nil, err
	}
	self, err := s.peers.Remove(ctx, request.GetName(), request.GetForce())
	if err != nil || !self {
		return &pb.RemovePeerResponse{}, err
	}
	if _, err := s.peers.Transfer(ctx, ""); err != nil {
		return nil, err
	}
	return nil, status.Errorf(codes.Unavailable, "controller %s has handed the lead over before it is removed: ask again with the same request id", s.cluster.Name())
}

// TransferLeadership hands the lead over to another controller.
func (s *Controller) TransferLeadership(ctx context.Context, request *pb.TransferLeadershipRequest) (*pb.TransferLeadershipResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	leader, err := s.peers.Transfer(ctx, request.GetTo())
	if err != nil {
		return nil, err
	}
	return &pb.TransferLeadershipResponse{Leader: leader}, nil
}
