package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// noteBoot notes when a registration was sent. It refuses one that was sent
// before another that was already accepted: a connection that hung, or a
// controller that was stopped with it, may deliver it long after. The
// allocations that were started since are not in it; they would be taken for
// lost, and run twice.
func (n *Node) noteBoot(c *RegisterNode, bootID string) *Refusal {
	if c.SentBootNS == 0 {
		return nil
	}
	if n.Inventory != nil && n.BootID() != bootID {
		if slices.Contains(n.FormerBoots, bootID) {
			return refuse(WrongState, "node %s was restarted since this registration was sent", n.Name)
		}
		former := append([]string{n.BootID()}, n.FormerBoots...)
		n.FormerBoots = former[:min(len(former), bounds.MaxFormerBoots)]
		n.RegisteredBootNS = 0
		n.Faults = nil
	}
	if c.SentBootNS <= n.RegisteredBootNS {
		return refuse(WrongState, "node %s has registered since this registration was sent; if its clock since boot went back, as that of a virtual machine put back to an earlier state does, restart it", n.Name)
	}
	n.RegisteredBootNS = c.SentBootNS
	return nil
}

// strays are the allocations that a node says it has and that do not belong to
// it.
func (s *State) strays(node string, running []RunningAlloc) []AllocKey {
	var strays []AllocKey
	for _, alloc := range running {
		if _, live := s.LiveAlloc(AllocRef{alloc.Job, alloc.Epoch, node}); live == nil {
			strays = append(strays, AllocKey{alloc.Job, alloc.Epoch})
		}
	}
	return strays
}

// IsStray reports whether an allocation no longer belongs to its node and its
// end is waited for.
func (t *tables) IsStray(ref AllocRef) bool {
	node, known := t.nodes.Get(ref.Node)
	return known && slices.Contains(node.Strays, AllocKey{ref.Job, ref.Epoch})
}

// strayEnded notes that nothing is left of a stray.
func (s *State) strayEnded(ref AllocRef) {
	if !s.IsStray(ref) {
		return
	}
	old, _ := s.nodes.Get(ref.Node)
	node := *old
	node.Strays = slices.DeleteFunc(slices.Clone(old.Strays), func(key AllocKey) bool { return key == AllocKey{ref.Job, ref.Epoch} })
	s.putNode(&node)
}
