package api

import (
	"slices"

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
	if s.hides("nodes") {
		message.Switches = nil
		for _, partition := range message.GetPartitions() {
			partition.Nodes = ""
		}
	}
	return message
}
