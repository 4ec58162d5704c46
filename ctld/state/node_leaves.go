package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NodeLeaves notes that a node is about to be switched off, or to sleep, as it says
// itself: it is drained, and its jobs leave it as from one that an administrator has
// emptied. Or it stays after all, which is also what a node means that registers and says
// nothing of it. What an administrator said of it meanwhile stays. Make one with
// LeavesFromMessage.
type NodeLeaves struct {
	Name string `cbor:"1,keyasint"`
	// Why: "shuts down"; "" = it stays.
	Why string `cbor:"2,keyasint,omitempty"`
	// WithinMS is for how long it will still be there.
	WithinMS int64 `cbor:"3,keyasint,omitempty"`
}

// leavesPatienceMS is by how much a deadline must come nearer to be noted: a node that
// says the same again counts from another moment.
const leavesPatienceMS = 1000

// LeavesFromMessage makes the command of what a node tells; nil = it stays.
func LeavesFromMessage(node string, message *pb.NodeLeaves) NodeLeaves {
	c := NodeLeaves{Name: node}
	if message != nil && !message.GetStays() {
		c.Why, c.WithinMS = bounds.Clip(message.GetWhy(), bounds.MaxNameBytes), min(max(message.GetWithinMs(), MinReclaimMS), MaxEvacuationMS)
		if c.Why == "" {
			c.Why = "goes"
		}
	}
	return c
}

// TellsLeaves reports whether a command changes anything.
func (t *tables) TellsLeaves(c *NodeLeaves) bool {
	node, known := t.nodes.Get(c.Name)
	switch {
	case !known:
		return false
	case c.Why == "":
		return node.Evacuation != nil && node.Evacuation.Own
	case node.Evacuation == nil:
		return true
	}
	deadline := node.Evacuation.DeadlineMS
	return deadline == 0 || t.timeMS+c.WithinMS < deadline-leavesPatienceMS
}

func (NodeLeaves) kind() Kind { return KindNodeLeaves }
func (c NodeLeaves) apply(s *State, _ *Result) {
	if !s.TellsLeaves(&c) {
		return
	}
	old, _ := s.nodes.Get(c.Name)
	node := *old
	if c.Why == "" {
		if !node.Evacuation.Drained {
			node.Drain, node.Reason, node.ReasonMS, node.ReasonUser = false, "", 0, ""
		}
		node.Evacuation = nil
		s.putNode(&node)
		s.stay(c.Name)
		return
	}
	drained := node.Drain
	node.evacuate(&UpdateNodes{Evacuate: true, WithinMS: c.WithinMS}, s.timeMS)
	switch before := old.Evacuation; {
	case before == nil:
		node.Evacuation.Own, node.Evacuation.Drained = true, drained
	default:
		node.Evacuation.Own, node.Evacuation.Drained = before.Own, before.Drained
	}
	node.Drain = true
	if !drained {
		node.Reason, node.ReasonMS, node.ReasonUser = "the machine "+c.Why, s.timeMS, nodesUser
	}
	s.putNode(&node)
}

// nodesUser is who drains a node that leaves by itself.
const nodesUser = "gnoded"
