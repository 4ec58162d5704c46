package api

import (
	"context"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Control holds, releases, requeues, suspends or resumes jobs.
func (s *Server) Control(ctx context.Context, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	uid, privileged, coordinator := from.uid, s.isAdministrator(from), s.coordinator(from)
	var kind state.Kind
	var command func([]state.Target) state.Command
	switch request.GetVerb() {
	case pb.ControlVerb_CONTROL_VERB_HOLD, pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER:
		kind = state.KindHoldJobs
		asUser := request.GetVerb() == pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER
		command = func(targets []state.Target) state.Command {
			return state.HoldJobs{Targets: targets, UID: uid, Privileged: privileged, AsUser: asUser, Coordinator: coordinator}
		}
	case pb.ControlVerb_CONTROL_VERB_RELEASE:
		kind = state.KindReleaseJobs
		command = func(targets []state.Target) state.Command {
			return state.ReleaseJobs{Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator}
		}
	case pb.ControlVerb_CONTROL_VERB_REQUEUE, pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD, pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT:
		kind = state.KindRequeueJobs
		special := request.GetVerb() == pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT
		hold := special || request.GetVerb() == pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD
		command = func(targets []state.Target) state.Command {
			return state.RequeueJobs{
				Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator,
				Hold: hold, SpecialExit: special, Incomplete: request.GetIncomplete(),
			}
		}
	case pb.ControlVerb_CONTROL_VERB_SUSPEND:
		kind, privileged = state.KindSuspendJobs, s.maySuspend(from)
		command = func(targets []state.Target) state.Command {
			return state.SuspendJobs{Targets: targets, UID: uid, Privileged: privileged}
		}
	case pb.ControlVerb_CONTROL_VERB_RESUME:
		kind, privileged = state.KindResumeJobs, s.maySuspend(from)
		command = func(targets []state.Target) state.Command {
			return state.ResumeJobs{Targets: targets, UID: uid, Privileged: privileged}
		}
	default:
		return nil, invalid("verb %d is not known: use hold, uhold, release, requeue, requeuehold, suspend or resume", request.GetVerb())
	}
	s.ownOnly(request.GetFilter(), uid, privileged)
	results, err := s.onTargets(ctx, kind, request, command)
	return &pb.ControlResponse{Results: results}, err
}

// maySuspend says whether the caller may suspend and resume jobs (scontrol(1):
// "Only an operator, administrator, SlurmUser, or root can suspend jobs").
func (s *Server) maySuspend(from *caller) bool {
	return s.levelOf(from, s.cluster.View()) >= state.Operator
}

// ownOnly lets the jobs that somebody means by a name be that person's, if there
// are any: others' are not theirs to change, and may have the same name.
func (s *Server) ownOnly(filter *pb.JobFilter, uid uint32, privileged bool) {
	if privileged || len(filter.GetNames()) == 0 || len(filter.GetUids())+len(filter.GetUsers()) > 0 {
		return
	}
	filter.Uids = []uint32{uid}
	if own, err := s.targets(filter, nil); err == nil && len(own) == 0 {
		filter.Uids = nil // each of the others is denied, which says why nothing happened
	}
}
