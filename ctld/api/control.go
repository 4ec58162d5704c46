package api

import (
	"context"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Control holds, releases or requeues jobs.
func (s *Server) Control(ctx context.Context, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	uid, privileged := from.uid, s.isAdministrator(from)
	var kind state.Kind
	var command func([]state.Target) state.Command
	switch request.GetVerb() {
	case pb.ControlVerb_CONTROL_VERB_HOLD:
		kind = state.KindHoldJobs
		command = func(targets []state.Target) state.Command {
			return state.HoldJobs{Targets: targets, UID: uid, Privileged: privileged}
		}
	case pb.ControlVerb_CONTROL_VERB_RELEASE:
		kind = state.KindReleaseJobs
		command = func(targets []state.Target) state.Command {
			return state.ReleaseJobs{Targets: targets, UID: uid, Privileged: privileged}
		}
	case pb.ControlVerb_CONTROL_VERB_REQUEUE:
		kind = state.KindRequeueJobs
		command = func(targets []state.Target) state.Command {
			return state.RequeueJobs{Targets: targets, UID: uid, Privileged: privileged}
		}
	default:
		return nil, invalid("verb %d is not known: use hold, release or requeue", request.GetVerb())
	}
	results, err := s.onTargets(ctx, kind, request, command)
	return &pb.ControlResponse{Results: results}, err
}
