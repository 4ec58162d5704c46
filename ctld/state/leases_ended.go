package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// LeasesEnded releases the parts that must not run without a lease (Run.Fence)
// of a node that has been silent so long that they stand still: one lease and
// a margin after the last renewal that anybody can have granted. Their jobs
// are requeued once all other parts are over. Parts under run-on stay.
//
// The leader that proposes it counted the time. A later one may have granted
// leases since, so it counts in that leader's own term only: see Barrier.
type LeasesEnded struct {
	Term uint64 `cbor:"1,keyasint"`
	Node string `cbor:"2,keyasint"`
}

func (LeasesEnded) kind() Kind   { return KindLeasesEnded }
func (LeasesEnded) level() Level { return LevelPeers }

func (c LeasesEnded) apply(s *State, result *Result) {
	node, known := s.nodes.Get(c.Node)
	switch {
	case c.Term == 0 || c.Term != s.term:
		result.Refused = refuse(WrongState, "the leases of term %d are not ended in term %d", c.Term, s.term)
	case !known:
		result.Refused = refuse(NotFound, "Node %s not found", clip(c.Node, MaxNameBytes))
	case !node.NotResponding || node.Awaited:
		// Of an awaited node's leases the restored state knows nothing.
		result.Refused = refuse(WrongState, "node %s may hold a lease", c.Node)
	default:
		s.endLeases(node)
	}
}

func (s *State) endLeases(node *Node) {
	for _, id := range node.use.jobs {
		job, _ := s.Job(id)
		if !job.Run.Fence {
			continue
		}
		s.partEnded(&PartReport{
			Job: id, Epoch: job.Epoch, Node: node.Name,
			Cause: pb.EndCause_END_CAUSE_LEASE_ENDED, Detail: "the node was silent for longer than its lease",
		})
	}
}

// FencedParts counts the parts on a node that stand still once its lease is
// over, and are released then.
func (t *tables) FencedParts(node string) (count int) {
	for job := range t.JobsOn(node) {
		if job.Run.Fence {
			count++
		}
	}
	return count
}

// PartsOn are the parts that are a node's: those that have a lease when it has.
func (t *tables) PartsOn(node string) []*pb.PartId {
	var parts []*pb.PartId
	for job := range t.JobsOn(node) {
		parts = append(parts, &pb.PartId{Job: job.ID, Epoch: job.Epoch})
	}
	return parts
}
