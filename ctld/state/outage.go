package state

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file notes the times in which nodes take no jobs, for history: an outage lasts
// while the way in which the node is away, and the reason for it, stay the same.

// outage is how and why a node takes no jobs; the zero value says that it takes them, or
// that it has never been there.
type outage struct{ state, reason, user string }

// silentReason is that of a node whose lease has run out, if nobody gave another.
const silentReason = "Not responding"

func (n *Node) outage() outage {
	var o outage
	switch {
	case n.Inventory == nil:
		return o
	case n.Down:
		o.state = "DOWN"
	case n.NotResponding:
		o.state, o.reason = "DOWN*", silentReason
	}
	if n.Drain {
		if o.state != "" {
			o.state += "+"
		}
		o.state += "DRAIN"
	}
	if o.state != "" && n.Reason != "" {
		o.reason, o.user = bounds.Clip(n.Reason, maxHistoryText), n.ReasonUser
	}
	return o
}

// beginOutage is for a node that has just become known; one that a snapshot brought has
// its time.
func (s *State) beginOutage(node *Node) {
	if node.outage() != (outage{}) && node.OutageMS == 0 {
		node.OutageMS = s.timeMS
	}
}

// noteOutage compares a node with what it was before a change.
func (s *State) noteOutage(old, node *Node) {
	switch before, after := old.outage(), node.outage(); {
	case before == after:
		node.OutageMS = old.OutageMS
	case before == (outage{}):
		s.beginOutage(node)
	default:
		s.endOutage(old)
		if node.OutageMS = s.timeMS; after == (outage{}) {
			node.OutageMS = 0
		}
	}
}

// endOutage keeps the outage of a node that has one, unless it took no time at all.
func (s *State) endOutage(node *Node) {
	event := node.outageMessage()
	if event == nil || event.StartMs >= s.timeMS {
		return
	}
	event.EndMs = s.timeMS
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.PastRun{Event: event})
	if err != nil {
		panic(fmt.Sprintf("ctld/state: the outage of node %s cannot be kept: %v", node.Name, err))
	}
	s.keep(bytes)
}

// outageMessage is the outage that lasts; nil = the node takes jobs.
func (n *Node) outageMessage() *pb.NodeEvent {
	o := n.outage()
	if o == (outage{}) {
		return nil
	}
	return &pb.NodeEvent{
		Node: n.Name, State: o.state, Reason: o.reason, User: o.user, StartMs: n.OutageMS,
		Cpus: n.Inventory.CPUs, Gpus: uint32(len(n.Inventory.Devices)),
	}
}

// Outages are those that last, by node.
func (t *tables) Outages() iter.Seq[*pb.NodeEvent] {
	return func(yield func(*pb.NodeEvent) bool) {
		for node := range t.Nodes() {
			if event := node.outageMessage(); event != nil && !yield(event) {
				return
			}
		}
	}
}
