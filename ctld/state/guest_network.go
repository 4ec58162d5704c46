package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file gives guests a network of their own. A job that asked for none and may be
// placed on a node with an owner has NETWORK_AUTO: each start decides, for all of its nodes
// alike, and an image keeps what it was made with.

// DecidedNetwork is a pb.Network in one byte: there are very many jobs.
type DecidedNetwork uint8

// networkNow is that of the present or last run, or of the image from which the next one
// resumes; NETWORK_AUTO where nothing has decided yet.
func (j *Job) networkNow() pb.Network {
	if j.Spec.Network == pb.Network_NETWORK_AUTO && j.Network != 0 {
		return pb.Network(j.Network)
	}
	return j.Spec.Network
}

// needsHost reports whether a job starts or resumes with its node's network only.
func (j *Job) needsHost() bool {
	if j.Spec.Network == pb.Network_NETWORK_AUTO {
		return pb.Network(j.Network) == pb.Network_NETWORK_HOST && (j.Phase != Waiting || len(j.Images()) > 0)
	}
	return j.Spec.Network != pb.Network_NETWORK_PRIVATE
}

// guestNetwork is the rule for the network of guests on a node. Where the owner has said
// nothing it is the strictest; a node of the site's has none then.
func (t *tables) guestNetwork(node *Node) policy.NetworkRule {
	if node.Lending != nil && node.Lending.Network != policy.NetworkAsSite {
		return node.Lending.Network
	}
	if t.policy.OwnerOf(node.Name) != "" {
		return policy.NetworkPrivateOnly
	}
	return policy.NetworkHost
}

// networkFor is what is decided of the network of a job with a run that starts.
func (t *tables) networkFor(job *Job, run *Run) pb.Network {
	if job.Spec.Network != pb.Network_NETWORK_AUTO || run.Restore != nil {
		return pb.Network(job.Network)
	}
	if partition, known := t.policy.Partition(run.Partition); known && t.policy.NetworkOf(partition) > policy.NetworkHost {
		return pb.Network_NETWORK_PRIVATE
	}
	for i := range run.Allocs {
		node, known := t.nodes.Get(run.Allocs[i].Node)
		if known && t.guestNetwork(node) > policy.NetworkHost && !t.OwnersJob(job, node.Name) {
			return pb.Network_NETWORK_PRIVATE
		}
	}
	return pb.Network_NETWORK_HOST
}

// outsideOn is what a job may do beyond its network on a node: what its partition allows,
// and where it is a guest the owner too.
func (t *tables) outsideOn(job *Job, partition *policy.Partition, node string) policy.Outside {
	o := t.policy.OutsideOf(partition)
	on, known := t.nodes.Get(node)
	if !known || on.Lending == nil || len(on.Lending.Allow) == 0 || t.OwnersJob(job, node) {
		return o
	}
	o.Allow = spec.CommonDestinations(o.Allow, on.Lending.Allow)
	return o
}

// allowOf is a list of destinations in one form; as it is if it is wrong, which is refused.
func allowOf(list []string) []string {
	written, err := spec.ParseDestinations(list)
	if err != nil {
		return list
	}
	if len(written) == 0 || written[0] == spec.Everywhere {
		return nil
	}
	return written
}
