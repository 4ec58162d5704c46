package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// LeasesEnded releases the allocations that must not run without a lease
// (Run.Fence), on a node that has been silent for so long that they are frozen:
// one lease and a margin after the last renewal that anybody can have granted.
// Their jobs are requeued once all other allocations are over. Allocations
// under run-on stay.
//
// The leader that proposes it counted the time. A later one may have granted
// leases since, so it counts in that leader's own term only: see Barrier.
type LeasesEnded struct {
	Term uint64 `cbor:"1,keyasint"`
	Node string `cbor:"2,keyasint"`
}

func (LeasesEnded) kind() Kind { return KindLeasesEnded }
func (c LeasesEnded) apply(s *State, result *Result) {
	node, known := s.nodes.Get(c.Node)
	switch {
	case c.Term == 0 || c.Term != s.term:
		result.Refused = refuse(WrongState, "the leases of term %d are not ended in term %d", c.Term, s.term)
	case !known:
		result.Refused = refuse(NotFound, "Node %s not found", bounds.Clip(c.Node, bounds.MaxNameBytes))
	case !node.NotResponding || node.Awaited:
		// The restored state knows nothing of an awaited node's leases.
		result.Refused = refuse(WrongState, "node %s may hold a lease", c.Node)
	default:
		s.endLeases(node)
	}
}

func (s *State) endLeases(node *Node) {
	for _, id := range node.use.jobs {
		job := s.jobOn(id, node.Name)
		if !job.Run.Fence {
			continue
		}
		s.allocEnded(&AllocReport{
			Job: id, Epoch: job.Epoch, Node: node.Name,
			Cause: pb.EndCause_END_CAUSE_LEASE_ENDED, Detail: "the node was silent for longer than its lease",
		})
	}
}

// FencedAllocs counts the allocations on a node that are frozen once its lease
// is over, and are released then.
func (t *tables) FencedAllocs(node string) (count int) {
	for job := range t.JobsOn(node) {
		if job.Run.Fence {
			count++
		}
	}
	return count
}

// AllocsOn are the allocations that belong to a node: they have a lease when it
// has one.
func (t *tables) AllocsOn(node string) []*pb.AllocId {
	var allocs []*pb.AllocId
	for job := range t.JobsOn(node) {
		allocs = append(allocs, &pb.AllocId{Job: job.ID, Epoch: job.Epoch})
	}
	return allocs
}
