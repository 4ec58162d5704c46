package state

// NodesLost records that the leases of nodes have run out: they take no new
// jobs. It changes no job: a job on a silent node goes on there (lease action
// run-on), and nothing is requeued until the node is back or declared fenced.
// Names that are not known are ignored.
type NodesLost struct {
	Names []string `cbor:"1,keyasint"`
}

func (NodesLost) kind() Kind { return KindNodesLost }

func (c NodesLost) apply(s *State, result *Result) {
	result.Refused = s.setResponding(c.Names, false)
}

func (s *State) setResponding(names []string, responding bool) *Refusal {
	if len(names) > MaxNodesPerCommand {
		return refuse(Exhausted, "%d nodes in one entry are too many: at most %d", len(names), MaxNodesPerCommand)
	}
	for _, name := range names {
		old, known := s.nodes.Get(name)
		if !known || old.Inventory == nil || old.NotResponding == !responding {
			continue
		}
		node := *old
		node.NotResponding = !responding
		s.putNode(&node)
	}
	return nil
}
