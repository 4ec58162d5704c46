package state

import "github.com/gleaner-hpc/gleaner/ctld/state/bounds"

// NodesLost records that the leases of nodes have run out: they take no new
// jobs. It ends no job: a job on a silent node keeps running (lease action
// run-on), and nothing is requeued until the node is back or declared fenced. A
// job that was to move to one continues where it is. Unknown names are ignored.
type NodesLost struct {
	Names []string `cbor:"1,keyasint"`
}

func (NodesLost) kind() Kind { return KindNodesLost }

func (c NodesLost) apply(s *State, result *Result) {
	result.Refused = s.setResponding(c.Names, false)
}

func (s *State) setResponding(names []string, responding bool) *Refusal {
	if len(names) > bounds.MaxNodesPerCommand {
		return refuse(Exhausted, "%d nodes in one entry are too many: at most %d", len(names), bounds.MaxNodesPerCommand)
	}
	for _, name := range names {
		old, known := s.nodes.Get(name)
		if !known || old.Inventory == nil || old.NotResponding == !responding {
			continue
		}
		node := *old
		node.NotResponding, node.SilentMS = !responding, 0
		if !responding {
			node.SilentMS = s.timeMS
		}
		s.putNode(&node)
		if !responding {
			s.targetsLost(&node)
		}
	}
	return nil
}
