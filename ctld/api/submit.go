package api

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Submit accepts a job, or an array as one record.
func (s *Controller) Submit(ctx context.Context, request *pb.SubmitRequest) (*pb.SubmitResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if err := s.mustLead(); err != nil {
		return nil, err
	}
	if before, known := s.cluster.Remembered(id, state.KindSubmitJob); known {
		return &pb.SubmitResponse{JobId: before.JobID}, s.confirm(ctx)
	}
	command, shape, err := s.checkSubmit(from, request)
	command.SeesAll = s.seesAll(from)
	if err != nil {
		// An old state may refuse what the present one would accept.
		return nil, cmp.Or(s.confirm(ctx), err)
	}
	view := s.cluster.View()
	result, err := s.propose(ctx, command, id)
	if err != nil {
		return nil, err
	}
	return &pb.SubmitResponse{JobId: result.JobID, Warnings: warnings(view, &command, shape)}, nil
}

// checkSubmit refuses what is not supported. The caller proposes what it
// returns.
func (s *Controller) checkSubmit(from *caller, request *pb.SubmitRequest) (command state.SubmitJob, shape *state.Shape, err error) {
	view := s.cluster.View()
	owner, err := s.ownerFor(from, request.GetAsUser())
	if err != nil {
		return command, nil, err
	}
	if err := checkSpec(request.GetSpec(), s.isAdministrator(from)); err != nil {
		return command, nil, err
	}
	command, err = state.SubmitFromSpec(request.GetSpec(), owner)
	if err != nil {
		return command, nil, invalid("%v", err)
	}
	// Before the log, because then it costs little to refuse a flood.
	if refused := view.MaySubmit(owner.GetUid(), command.Tasks()); refused != nil {
		return command, nil, refusal(refused)
	}
	shape, err = state.ShapeOf(view.Policy(), &command)
	if err != nil {
		return command, nil, refusalOf(err)
	}
	if err := checkGroups(view.Policy(), shape.Partitions, owner); err != nil {
		return command, nil, err
	}
	if err := checkNamedNodes(view, shape); err != nil {
		return command, nil, err
	}
	return command, shape, s.checkFeasible(view, shape)
}

// ownerFor is the user the job runs as: the caller, or the one that root names.
func (s *Controller) ownerFor(from *caller, asUser string) (*pb.Identity, error) {
	switch {
	case asUser != "" && !from.isRoot():
		return nil, status.Error(codes.PermissionDenied, "only root may submit for another user: leave out --uid")
	case asUser != "":
		return accountNamed(asUser)
	case from.owner != nil:
		return identityOf(from.owner), nil
	}
	account, err := lookupUID(from.uid)
	if err != nil {
		return nil, status.Errorf(codes.PermissionDenied, "Invalid user id: %d: %v", from.uid, err)
	}
	return account, nil
}

// accountNamed finds a user by name, or by number as in --uid=1000.
func accountNamed(text string) (*pb.Identity, error) {
	account, err := lookupName(text)
	if number, parseErr := strconv.ParseUint(text, 10, 32); err != nil && parseErr == nil {
		account, err = lookupUID(uint32(number))
	}
	if err != nil {
		return nil, invalid("Invalid user: %.64s: %v", text, err)
	}
	return account, nil
}

// checkGroups refuses partitions that only members of certain groups may use.
// Root, and the users that root submits for, are checked alike: the job is what
// counts.
func checkGroups(site *policy.Policy, partitions []string, owner *pb.Identity) error {
	for _, name := range partitions {
		partition, known := site.Partition(name)
		if !known || len(partition.AllowGroups) == 0 || owner.GetUid() == 0 {
			continue
		}
		member := slices.ContainsFunc(partition.AllowGroups, func(group string) bool {
			found, err := user.LookupGroup(group)
			if err != nil {
				return false
			}
			gid, err := strconv.ParseUint(found.Gid, 10, 32)
			return err == nil && slices.Contains(owner.GetGroups(), uint32(gid))
		})
		if !member {
			return status.Errorf(codes.PermissionDenied, "User's group not permitted to use this partition: %s is for the groups %s", name, strings.Join(partition.AllowGroups, ", "))
		}
	}
	return nil
}

// warnings name what is accepted but will not start soon, or not as was meant.
func warnings(view *state.View, command *state.SubmitJob, shape *state.Shape) []string {
	texts := unknownNames(view, command, shape.Partitions)
	if text := excludedWarning(view, shape); text != "" {
		texts = append(texts, text)
	}
	for _, name := range shape.Partitions {
		if partition, known := view.Policy().Partition(name); known && !partition.Up {
			texts = append(texts, fmt.Sprintf("partition %s is down: the job waits until it is up", name))
		}
	}
	return texts
}
