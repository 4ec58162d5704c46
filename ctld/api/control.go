package api

import (
	"context"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Control holds, releases, requeues, suspends or resumes jobs.
func (s *Controller) Control(ctx context.Context, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetVerb() == pb.ControlVerb_CONTROL_VERB_TOP {
		return s.top(ctx, from, request)
	}
	uid, privileged, coordinator, all := from.uid, s.isAdministrator(from), s.coordinator(from), s.seesAll(from)
	var kind state.Kind
	var command func([]state.Target) state.Command
	switch request.GetVerb() {
	case pb.ControlVerb_CONTROL_VERB_HOLD, pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER:
		kind = state.KindHoldJobs
		asUser := request.GetVerb() == pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER
		command = func(targets []state.Target) state.Command {
			return state.HoldJobs{Targets: targets, UID: uid, Privileged: privileged, AsUser: asUser, Coordinator: coordinator, SeesAll: all}
		}
	case pb.ControlVerb_CONTROL_VERB_RELEASE:
		kind = state.KindReleaseJobs
		command = func(targets []state.Target) state.Command {
			return state.ReleaseJobs{Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator, SeesAll: all}
		}
	case pb.ControlVerb_CONTROL_VERB_REQUEUE, pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD, pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT:
		kind = state.KindRequeueJobs
		special := request.GetVerb() == pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT
		hold := special || request.GetVerb() == pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD
		command = func(targets []state.Target) state.Command {
			return state.RequeueJobs{
				Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator,
				Hold: hold, SpecialExit: special, Incomplete: request.GetIncomplete(), SeesAll: all,
			}
		}
	case pb.ControlVerb_CONTROL_VERB_SUSPEND:
		kind, privileged = state.KindSuspendJobs, s.maySuspend(from)
		command = func(targets []state.Target) state.Command {
			return state.SuspendJobs{Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator}
		}
	case pb.ControlVerb_CONTROL_VERB_RESUME:
		kind, privileged = state.KindResumeJobs, s.maySuspend(from)
		command = func(targets []state.Target) state.Command {
			return state.ResumeJobs{Targets: targets, UID: uid, Privileged: privileged, Coordinator: coordinator}
		}
	default:
		return nil, invalid("verb %d is not known: use hold, uhold, release, requeue, requeuehold, suspend, resume or top", request.GetVerb())
	}
	s.ownOnly(request.GetFilter(), from, privileged)
	results, err := s.onTargets(ctx, from, kind, request, command)
	return &pb.ControlResponse{Results: results}, err
}

// maySuspend reports whether the caller may suspend and resume jobs (scontrol(1):
// "Only an operator, administrator, SlurmUser, or root can suspend jobs").
func (s *Controller) maySuspend(from *caller) bool {
	return s.levelOf(from, s.cluster.View()) >= state.Operator
}

// ownOnly restricts jobs chosen by name to the caller's own, if there are any:
// users may not change others' jobs, which may have the same name.
func (s *Controller) ownOnly(filter *pb.JobFilter, from *caller, privileged bool) {
	if privileged || len(filter.GetNames()) == 0 || len(filter.GetUids())+len(filter.GetUsers()) > 0 {
		return
	}
	filter.Uids = []uint32{from.uid}
	if own, err := s.targets(from, filter, nil); err == nil && len(own) == 0 {
		filter.Uids = nil // the others' jobs are denied, which says why nothing happened
	}
}
