package peerlink

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Hello tells another controller what this one understands.
func (p *Peers) Hello(ctx context.Context, caller string) *pb.HelloResponse {
	leader, address := p.peer.LeaderAddress()
	return &pb.HelloResponse{
		Name: p.peer.Name(), Version: p.options.Version, Level: p.options.Level, AppliedIndex: p.peer.AppliedIndex(),
		Joining: p.peer.Joining(), Leader: leader, LeaderAddress: address,
		Stranger: !p.IsMember(caller) && p.options.Leads(ctx) == nil,
		Problem:  p.options.Problem(), HistoryThrough: p.options.HistoryThrough(),
	}
}

// StartCatchUp opens this controller, which was started to join, for the log.
func (p *Peers) StartCatchUp(caller string, request *pb.StartCatchUpRequest) error {
	if !p.peer.Joining() {
		return nil
	}
	if err := p.peer.CatchUp(request.GetTerm()); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	p.log.Info("being brought up to date", "leader", caller, "term", request.GetTerm())
	return nil
}

// EndCatchUp makes this controller a voter.
func (p *Peers) EndCatchUp(caller string) error {
	if !p.peer.Joining() {
		return nil
	}
	if err := p.peer.Admit(p.options.Admitted); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	p.log.Info("joined the cluster", "peer", p.peer.Name(), "leader", caller, "index", p.peer.AppliedIndex())
	return nil
}
