package api

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// SaveJobs orders that jobs are saved, or moved: for their users, coordinators
// of their accounts, operators and administrators. A job that its node cannot
// save is refused at once, with the reason.
func (s *Controller) SaveJobs(ctx context.Context, request *pb.SaveJobsRequest) (*pb.SaveJobsResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	purpose := state.SaveAsked
	switch {
	case request.GetMove():
		purpose = state.SaveMove
	case request.GetNode() != "":
		return nil, invalid("a node is named, and nothing is to be moved: use gcontrol migrate")
	}
	var to []string
	if request.GetNode() != "" {
		if to, err = s.movedTo(request.GetNode()); err != nil {
			return nil, err
		}
	}
	privileged := s.levelOf(from, s.cluster.View()) >= state.Operator
	s.ownOnly(request.GetFilter(), from, privileged)
	var refused []*pb.JobResult
	results, err := s.onTargets(ctx, from, state.KindSaveJobs, request, func(targets []state.Target) state.Command {
		targets, not := s.savable(from, privileged, targets)
		refused = append(refused, not...)
		return state.SaveJobs{Targets: targets, UID: from.uid, Privileged: privileged, Coordinator: s.coordinator(from), Purpose: purpose, To: to, SeesAll: s.seesAll(from)}
	})
	may := s.sightOf(from, s.cluster.View())
	for _, result := range results {
		result.Error = may.conceal(result.GetError())
	}
	if status.Code(err) == codes.InvalidArgument && len(refused) > 0 {
		err = nil // nothing was left to be ordered
	}
	return &pb.SaveJobsResponse{Results: append(results, refused...)}, err
}

// movedTo are the nodes of a host list, ascending.
func (s *Controller) movedTo(list string) ([]string, error) {
	names, err := spec.ParseHostList(list)
	if err != nil {
		return nil, invalid("node %.64s: %v", list, err)
	}
	slices.Sort(names)
	view := s.cluster.View()
	for i, name := range names {
		if _, known := view.Node(name); !known {
			return nil, status.Errorf(codes.NotFound, "Node %.64s not found", name)
		}
		if i > 0 && names[i-1] == name {
			return nil, invalid("node %.64s is named twice", name)
		}
	}
	return names, nil
}

// savable leaves out the jobs that their nodes cannot save, and answers for
// them. It says nothing about jobs that the caller may not save.
func (s *Controller) savable(from *caller, privileged bool, targets []state.Target) ([]state.Target, []*pb.JobResult) {
	var refused []*pb.JobResult
	view := s.cluster.View()
	kept := slices.DeleteFunc(slices.Clone(targets), func(target state.Target) bool {
		found := resolve(view, target)
		if len(found) != 1 || found[0].job == nil {
			return false
		}
		job := found[0].job
		if job.Phase != state.Running || !privileged && job.Owner().UID != from.uid && !s.coordinates(from, job) {
			return false
		}
		var overlay state.Overlay
		if s.loops.OverlaySaved(job, &overlay); overlay.Checkpointable != "NO" || job.NotSavable() != "" {
			return false // the state says the same of the latter
		}
		refused = append(refused, &pb.JobResult{Id: found[0].id, Error: "it cannot be saved: " + overlay.CheckpointableReason})
		return true
	})
	return kept, refused
}
