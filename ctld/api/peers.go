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
}

// addLimit is how long a request to add a controller waits for its vote.
const addLimit = 20 * time.Second

// ListPeers answers all controllers, each as it says itself.
func (s *Server) ListPeers(ctx context.Context, _ *pb.ListPeersRequest) (*pb.ListPeersResponse, error) {
	if _, err := s.reader(ctx); err != nil {
		return nil, err
	}
	return s.peers.List(ctx), nil
}

// AddPeer makes a controller that was started to join a member. When it has
// not caught up in time it goes on all the same.
func (s *Server) AddPeer(ctx context.Context, request *pb.AddPeerRequest) (*pb.AddPeerResponse, error) {
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

// RemovePeer takes a controller away. One that leads hands that over first,
// and the request with it.
func (s *Server) RemovePeer(ctx context.Context, request *pb.RemovePeerRequest) (*pb.RemovePeerResponse, error) {
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
func (s *Server) TransferLeadership(ctx context.Context, request *pb.TransferLeadershipRequest) (*pb.TransferLeadershipResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	leader, err := s.peers.Transfer(ctx, request.GetTo())
	if err != nil {
		return nil, err
	}
	return &pb.TransferLeadershipResponse{Leader: leader}, nil
}

// Hello tells another controller what this one is.
func (s *Server) Hello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return s.peers.Hello(ctx, caller), nil
}

// StartCatchUp is said by the leader to a controller that joins.
func (s *Server) StartCatchUp(ctx context.Context, request *pb.StartCatchUpRequest) (*pb.StartCatchUpResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.StartCatchUpResponse{}, s.peers.StartCatchUp(caller, request)
}

// EndCatchUp is said by the leader to a controller that has caught up.
func (s *Server) EndCatchUp(ctx context.Context, _ *pb.EndCatchUpRequest) (*pb.EndCatchUpResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.EndCatchUpResponse{}, s.peers.EndCatchUp(caller)
}

func mustBeController(ctx context.Context) (string, error) {
	if name := fromPeer(ctx); name != "" {
		return name, nil
	}
	return "", status.Error(codes.PermissionDenied, "only controllers may ask this")
}
