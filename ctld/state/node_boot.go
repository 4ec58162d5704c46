package state

import "slices"

// noteBoot notes when a registration was sent. It refuses one that was sent
// before another that was taken in already: a connection that hung, or a
// controller that was stopped with it, may deliver it long after. The parts
// that were started since are not in it and would be taken for lost, and run
// twice.
func (n *Node) noteBoot(c *RegisterNode, bootID string) *Refusal {
	if c.SentBootNS == 0 {
		return nil
	}
	if n.Inventory != nil && n.BootID() != bootID {
		if slices.Contains(n.FormerBoots, bootID) {
			return refuse(WrongState, "node %s was restarted since this registration was sent", n.Name)
		}
		former := append([]string{n.BootID()}, n.FormerBoots...)
		n.FormerBoots = former[:min(len(former), MaxFormerBoots)]
		n.RegisteredBootNS = 0
	}
	if c.SentBootNS <= n.RegisteredBootNS {
		return refuse(WrongState, "node %s has registered since this registration was sent; if its clock since boot went back, as that of a virtual machine put back to an earlier state does, restart it", n.Name)
	}
	n.RegisteredBootNS = c.SentBootNS
	return nil
}

// strays are the parts that a node says it has and that are not its.
func (s *State) strays(node string, running []RunningPart) []PartKey {
	var strays []PartKey
	for _, part := range running {
		if _, live := s.LivePart(PartRef{part.Job, part.Epoch, node}); live == nil {
			strays = append(strays, PartKey{part.Job, part.Epoch})
		}
	}
	return strays
}

// IsStray says whether the end of a part is waited for that is not the node's
// any more.
func (t *tables) IsStray(ref PartRef) bool {
	node, known := t.nodes.Get(ref.Node)
	return known && slices.Contains(node.Strays, PartKey{ref.Job, ref.Epoch})
}

// strayEnded notes that nothing is left of one.
func (s *State) strayEnded(ref PartRef) {
	if !s.IsStray(ref) {
		return
	}
	old, _ := s.nodes.Get(ref.Node)
	node := *old
	node.Strays = slices.DeleteFunc(slices.Clone(old.Strays), func(key PartKey) bool { return key == PartKey{ref.Job, ref.Epoch} })
	s.putNode(&node)
}
