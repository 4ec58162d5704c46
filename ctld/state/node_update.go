package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NodeAction is what an administrator does to a node.
type NodeAction uint8

// Actions. Numbers are append-only.
const (
	DrainNode  NodeAction = 1 // finish what runs, start nothing new
	ResumeNode NodeAction = 2 // take jobs again
	DownNode   NodeAction = 3 // as drain, and shown as down
	// FenceNode declares that nothing runs on a silent node any longer, because
	// it is switched off: its allocations are over, its jobs may be requeued.
	FenceNode NodeAction = 4
	// DeleteNode removes the record of a silent node that has nothing any longer: the
	// machine is gone for good. One that registers again is a new node.
	DeleteNode NodeAction = 5
)

// UpdateNodes drains, resumes or deletes nodes, all of them or, when one is not known,
// none.
type UpdateNodes struct {
	Names  []string   `cbor:"1,keyasint"`
	Action NodeAction `cbor:"2,keyasint"`
	Reason string     `cbor:"3,keyasint,omitempty"` // needed but for ResumeNode and DeleteNode
	User   string     `cbor:"4,keyasint,omitempty"` // who did it
	// Evacuate: with DrainNode, its jobs leave; WithinMS is the time for that, 0 = without
	// bound.
	Evacuate bool  `cbor:"85,keyasint,omitempty"`
	WithinMS int64 `cbor:"86,keyasint,omitempty"`
	// Coordinator is somebody who may only have the nodes of the accounts that they
	// coordinate evacuated, and take that back; "" = an operator or administrator.
	Coordinator string `cbor:"87,keyasint,omitempty"`
}

func (UpdateNodes) kind() Kind { return KindUpdateNodes }

func (c UpdateNodes) apply(s *State, result *Result) {
	names := slices.Clone(c.Names)
	slices.Sort(names)
	names = slices.Compact(names)
	if result.Refused = s.checkUpdate(&c, names); result.Refused != nil {
		return
	}
	for _, name := range names {
		if c.Action == DeleteNode {
			s.forgetCopies(name)
			s.deleteNode(name)
		} else {
			s.updateNode(name, &c)
		}
	}
}

func (s *State) checkUpdate(c *UpdateNodes, names []string) *Refusal {
	switch {
	case len(names) == 0:
		return refuse(Invalid, "no node is named")
	case len(names) > bounds.MaxNodesPerCommand:
		return refuse(Exhausted, "%d nodes in one request are too many: at most %d", len(names), bounds.MaxNodesPerCommand)
	case c.Action < DrainNode || c.Action > DeleteNode:
		return refuse(Invalid, "no such node state: use drain, resume, down or fenced")
	case c.Evacuate && c.Action != DrainNode || c.WithinMS != 0 && !c.Evacuate:
		return refuse(Invalid, "only a node that is drained is evacuated: use state=drain evacuate=yes")
	case c.WithinMS < 0 || c.WithinMS > MaxEvacuationMS || c.Evacuate && c.WithinMS != 0 && c.WithinMS < MinReclaimMS:
		return refuse(Invalid, "the time to evacuate a node is between 1 second and 7 days")
	case c.Action != ResumeNode && c.Action != DeleteNode && c.Reason == "":
		return refuse(Invalid, "You must specify a reason when DOWNING or DRAINING a node: add reason=TEXT")
	case len(c.Reason) > bounds.MaxTextBytes || len(c.User) > bounds.MaxNameBytes:
		return refuse(Invalid, "the reason is longer than %d bytes: shorten it", bounds.MaxTextBytes)
	}
	for _, name := range names {
		node, known := s.nodes.Get(name)
		switch {
		case !known:
			return refuse(NotFound, "Node %s not found", bounds.Clip(name, bounds.MaxNameBytes))
		case c.Coordinator != "" && !s.mayEvacuate(c, node):
			return refuse(Denied, "Access/permission denied: coordinators may evacuate the nodes of their accounts (state=drain evacuate=yes), and resume those again")
		case c.Action == FenceNode && node.Inventory != nil && !node.NotResponding:
			return refuse(WrongState, "node %s still responds, so jobs may run on it: drain it, cancel its jobs, or switch it off and wait until it is not responding", name)
		}
	}
	if c.Action == DeleteNode {
		return s.checkDelete(names)
	}
	return nil
}

func (s *State) updateNode(name string, c *UpdateNodes) {
	old, _ := s.nodes.Get(name)
	node := *old
	switch c.Action {
	case ResumeNode:
		node.Drain, node.Down = false, false
		node.Reason, node.ReasonMS, node.ReasonUser = "", 0, ""
		node.Faults = nil
		node.Evacuation = nil
	case DrainNode:
		node.Drain = true
		node.evacuate(c, s.timeMS)
	default:
		node.Drain, node.Down = true, true
	}
	if e := node.Evacuation; e != nil && e.Own {
		stays := *e // drained, once the machine is back
		stays.Drained = true
		node.Evacuation = &stays
	}
	if c.Action == FenceNode {
		node.Awaited, node.Strangers, node.Strays = false, nil, nil
	}
	if c.Action != ResumeNode {
		node.Reason, node.ReasonMS, node.ReasonUser = c.Reason, s.timeMS, c.User
	}
	s.putNode(&node)
	if c.Action == FenceNode {
		s.fence(name, old.use.jobs)
	}
	if old.Evacuation != nil && node.Evacuation == nil {
		s.stay(name)
	}
}

// fence ends the allocations of a node that is declared switched off.
func (s *State) fence(name string, jobs []uint32) {
	for _, id := range jobs {
		job := s.jobOn(id, name)
		s.allocEnded(&AllocReport{
			Job: id, Epoch: job.Epoch, Node: name,
			Cause: pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, Detail: "the node was declared fenced",
		})
	}
}
