package api

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has what a caller may see of nodes, the policy and the whole
// cluster, where these mention hidden jobs.

// node leaves hidden jobs out of a node's message. Their use of the node stays,
// as in Slurm.
func (s *sight) node(message *pb.Node) *pb.Node {
	if s.hides("accounts") {
		message.OwnerAccount = ""
	}
	message.Reclaim, message.Lending = s.reclaim(message), s.lending(message.GetLending())
	if !s.hides("jobs") {
		return message
	}
	hidden := func(id uint32) bool { return !s.seesNumber(id) }
	message.RunningJobs = slices.DeleteFunc(slices.Clone(message.GetRunningJobs()), hidden)
	message.FrozenJobs = slices.DeleteFunc(slices.Clone(message.GetFrozenJobs()), hidden)
	message.Reason = s.conceal(message.GetReason())
	message.Fencing, message.LeftOvers = "", nil // name runs of jobs, and what they left
	return message
}

// lending leaves out of the terms on which a node is lent who set them, and for which
// accounts, where these are hidden.
func (s *sight) lending(terms *pb.Lending) *pb.Lending {
	if terms == nil || !s.hides("users") && !s.hides("accounts") {
		return terms
	}
	shown := proto.CloneOf(terms)
	if s.hides("users") {
		shown.By = ""
	}
	if s.hides("accounts") {
		shown.Owner, shown.Accounts = "", nil
	}
	return shown
}

// reclaim leaves out of a node's reclaim which hidden jobs were guests. That there were,
// what they had and when they left is the owner's to see.
func (s *sight) reclaim(message *pb.Node) *pb.Reclaim {
	if message.GetReclaim() == nil {
		return nil
	}
	reclaim := proto.CloneOf(message.GetReclaim())
	mine := s.view.MayReclaim(s.coordinator, s.all, message.GetName())
	if s.hides("users") {
		reclaim.By = ""
	}
	for _, hold := range reclaim.GetHolds() {
		if s.hides("users") {
			hold.By = ""
		}
		if !mine {
			hold.Detail = "" // may name the owner's processes
		}
	}
	for _, guest := range reclaim.GetGuests() {
		job, known := s.view.Job(guest.GetJob())
		switch {
		case s.hides("jobs") && !(known && s.sees(job)):
			guest.Id, guest.Job, guest.Epoch, guest.Name, guest.User, guest.Account, guest.Detail, guest.ParkUnbounded = nil, 0, 0, "", "", "", "", ""
		case !mine && !(known && s.reads(job)):
			guest.Detail = "" // may name the job's processes
		default:
			guest.Detail = s.conceal(guest.GetDetail())
		}
	}
	return reclaim
}

// refusedNodes is the refusal of a request about nodes. Who may not see nodes, or which
// accounts there are, does not learn it from a refusal.
func (s *sight) refusedNodes(refused *state.Refusal) error {
	return s.concealNodes(refusal(refused))
}

func (s *sight) concealNodes(err error) error {
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied:
		if s.hidesOwners() {
			return status.Error(codes.PermissionDenied, "Access/permission denied: not all of these nodes belong to accounts that you coordinate: greclaim --mine and grelease --mine take those that do")
		}
	}
	return err
}

// hidesOwners says whether the caller may not know which account owns which nodes.
func (s *sight) hidesOwners() bool { return s.hides("nodes") || s.hides("accounts") }

// policy leaves out partitions and nodes where these are hidden.
func (s *sight) policy(message *pb.Policy) *pb.Policy {
	if s.hides("partitions") {
		message.Partitions = nil
	}
	if s.hidesOwners() {
		message.Owners = nil
	}
	if s.hides("nodes") || s.hides("users") {
		message.Logins = nil
	}
	if s.hides("nodes") {
		message.Switches = nil
		for _, partition := range message.GetPartitions() {
			partition.Nodes = ""
		}
	}
	return message
}
