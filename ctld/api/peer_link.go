package api

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// PeerLink answers the other controllers: who this one is, how far a joining
// one has come, and certificates, if the authority's key is here. It accepts
// only controllers' certificates, on the address for controllers.
type PeerLink struct {
	pb.UnimplementedPeerLinkServer
	*core
}

// Hello tells another controller what this one is.
func (s *PeerLink) Hello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return s.peers.Hello(ctx, caller), nil
}

// The leader calls StartCatchUp on a controller that joins.
func (s *PeerLink) StartCatchUp(ctx context.Context, request *pb.StartCatchUpRequest) (*pb.StartCatchUpResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.StartCatchUpResponse{}, s.peers.StartCatchUp(caller, request)
}

// The leader calls EndCatchUp on a controller that has caught up.
func (s *PeerLink) EndCatchUp(ctx context.Context, _ *pb.EndCatchUpRequest) (*pb.EndCatchUpResponse, error) {
	caller, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.EndCatchUpResponse{}, s.peers.EndCatchUp(caller)
}

// CheckLeader looks whether the leader is gone.
func (s *PeerLink) CheckLeader(ctx context.Context, request *pb.CheckLeaderRequest) (*pb.CheckLeaderResponse, error) {
	if by, err := mustBeController(ctx); err != nil {
		return nil, err
	} else if s.peers == nil || !s.peers.IsMember(by) {
		return nil, status.Errorf(codes.PermissionDenied, "controller %s is no member of this cluster", by)
	}
	return s.peers.CheckLeader(ctx, request), nil
}

// CopyHistory returns what this controller's database has behind a position.
func (s *PeerLink) CopyHistory(ctx context.Context, request *pb.CopyHistoryRequest) (*pb.CopyHistoryResponse, error) {
	if by, err := mustBeController(ctx); err != nil {
		return nil, err
	} else if s.peers == nil || !s.peers.IsMember(by) {
		return nil, status.Errorf(codes.PermissionDenied, "controller %s is no member of this cluster", by)
	}
	rows, through, err := s.options.History.Copy(ctx, state.Position(request.GetAfter()))
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the history database here cannot be read: %v", err)
	}
	answer := &pb.CopyHistoryResponse{Through: uint64(through)}
	for i := range rows {
		answer.Rows = append(answer.Rows, &pb.HistoryRow{Position: uint64(rows[i].At), Run: rows[i].Run})
	}
	return answer, nil
}

func mustBeController(ctx context.Context) (string, error) {
	if name := fromPeer(ctx); name != "" {
		return name, nil
	}
	return "", status.Error(codes.PermissionDenied, "only controllers may ask this")
}

// Sign issues a certificate for the controller that leads, if the authority's key
// is here.
func (s *PeerLink) Sign(ctx context.Context, request *pb.SignRequest) (*pb.SignResponse, error) {
	by, err := mustBeController(ctx)
	if err != nil {
		return nil, err
	}
	switch kind := pki.Kind(request.GetKind()); {
	case s.peers == nil || !s.peers.IsMember(by) || s.options.Authority == nil:
		return nil, status.Errorf(codes.PermissionDenied, "controller %s is no member of this cluster", by)
	case kind != pki.Node && kind != pki.Host && kind != pki.User && kind != pki.Controller:
		return nil, invalid("%.20q is no kind of holder", kind)
	}
	der, err := s.options.Authority.Sign(request.GetRequest(), pki.Kind(request.GetKind()), request.GetName())
	if errors.Is(err, pki.ErrNoKey) {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if err != nil {
		return nil, invalid("%v", err)
	}
	return &pb.SignResponse{Certificate: der}, nil
}
