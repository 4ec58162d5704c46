package api

import (
	"context"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ChangeAccounts changes accounts, users, associations and QOS: all that the
// request lists, or nothing. In a dry run it says what it would refuse.
func (s *Controller) ChangeAccounts(ctx context.Context, request *pb.ChangeAccountsRequest) (*pb.ChangeAccountsResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	command, err := state.ChangesFromMessage(request.GetChanges())
	if err != nil {
		return nil, refusalOf(err)
	}
	if before, known := s.cluster.Remembered(id, state.KindChangeAccounts); known && before.Refused == nil {
		return &pb.ChangeAccountsResponse{}, nil
	}
	view := s.cluster.View()
	if err := s.mayChange(from, view, &command); err != nil {
		return nil, err
	}
	after, refused := view.TryAccounts(command)
	if refused != nil {
		return nil, refusal(refused)
	}
	answer := &pb.ChangeAccountsResponse{Notes: after.BelowWhatRuns(&command)}
	if request.GetDryRun() {
		return answer, nil
	}
	_, err = s.propose(ctx, command, id)
	return answer, err
}
