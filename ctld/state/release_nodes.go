package state

import (
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ReleaseNodes ends holds, and the reclaims that have none left: the owner lends the
// nodes again, and guests run there. It may be applied twice without harm: a node
// without such a hold stays as it is. The nodes that had one are in Result.Nodes.
type ReleaseNodes struct {
	Names []string `cbor:"1,keyasint"`
	User  string   `cbor:"2,keyasint,omitempty"` // as in ReclaimNodes, and so the rest
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"3,keyasint,omitempty"`
	Privileged  bool   `cbor:"4,keyasint,omitempty"`
	// Trigger is whose hold ends; 0 = all holds do, as when somebody types grelease.
	Trigger pb.ReclaimTrigger `cbor:"30,keyasint,omitempty"`
}

func (ReleaseNodes) kind() Kind { return KindReleaseNodes }
func (c ReleaseNodes) apply(s *State, result *Result) {
	names := nodesNamed(c.Names)
	if result.Refused = s.checkOwned(names, c.Coordinator, c.Privileged, "release"); result.Refused != nil {
		return
	}
	for _, name := range names {
		s.noteHoursOff(name, c.Trigger)
		if c.Trigger == 0 {
			s.noteHoldsOff(name)
		}
		if s.dropHolds(name, func(h *Hold) bool { return c.Trigger == 0 || h.Trigger == c.Trigger }) {
			result.Nodes = append(result.Nodes, name)
		}
	}
}

// EndReclaims ends the holds whose time is over, by log time, and the reclaims that
// have none left. The nodes that had one are in Result.Nodes. Holds that a node told end
// when it says so: it counts their time by its own clock, and refuses guests until then.
type EndReclaims struct{}

func (EndReclaims) kind() Kind { return KindEndReclaims }
func (EndReclaims) apply(s *State, result *Result) {
	var names []string
	s.reclaimed.Scan(func(name string, _ struct{}) bool {
		names = append(names, name)
		return true
	})
	for _, name := range names {
		if s.dropHolds(name, func(h *Hold) bool { return h.endsMS() != 0 && h.endsMS() <= s.timeMS }) {
			result.Nodes = append(result.Nodes, name)
		}
	}
}

// endsMS is when the controllers end a hold; 0 = they do not.
func (h *Hold) endsMS() int64 {
	if slices.Contains(nodesTriggers, h.Trigger) {
		return 0
	}
	return h.UntilMS
}

// ReclaimsEndMS is when the first hold of a node ends by itself; 0 = none does.
func (t *tables) ReclaimsEndMS() int64 {
	first := int64(0)
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		node, _ := t.nodes.Get(name)
		for i := range node.Reclaim.Holds {
			if until := node.Reclaim.Holds[i].endsMS(); until != 0 && (first == 0 || until < first) {
				first = until
			}
		}
		return true
	})
	return first
}

// dropHolds ends some holds of a node, and its reclaim if none is left. It reports
// whether there was such a hold.
func (s *State) dropHolds(name string, dropped func(*Hold) bool) bool {
	old, _ := s.nodes.Get(name)
	if old.Reclaim == nil {
		return false
	}
	reclaim := *old.Reclaim
	reclaim.Holds = slices.DeleteFunc(slices.Clone(reclaim.Holds), func(h Hold) bool { return dropped(&h) })
	switch len(reclaim.Holds) {
	case len(old.Reclaim.Holds):
		return false
	case 0:
		return s.releaseNode(name)
	}
	reclaim.summed()
	node := *old
	node.Reclaim = &reclaim
	s.putNode(&node)
	return true
}

// releaseNode ends the reclaim of a node, if there is one. A guest that no node
// has stopped yet has all that it needs, and continues at once; the others do by
// a plan, when their CPUs and devices are free.
func (s *State) releaseNode(name string) bool {
	old, _ := s.nodes.Get(name)
	if old.Reclaim == nil {
		return false
	}
	s.notePromise(old, old.Reclaim)
	node := *old
	node.Reclaim = nil
	s.noteLent(&node)
	s.putNode(&node)
	for _, id := range old.use.jobs {
		job, _ := s.Job(id)
		if s.continuesAtOnce(job) {
			s.putJob(s.continued(job))
		}
	}
	return true
}

// continuesAtOnce reports whether a job was only suspended for a reclaim that is
// over, and no node of it has stopped it.
func (s *State) continuesAtOnce(job *Job) bool {
	if !job.Suspended() || job.Run.Suspension.Reclaim == 0 || job.Run.Suspension.For != 0 {
		return false
	}
	for i := range job.Run.Allocs {
		if job.Run.Allocs[i].Frozen {
			return false
		}
	}
	_, err := s.checkContinue(&ContinueOrder{Job: job.ID, Epoch: job.Epoch, Number: job.Run.SuspendNumber})
	return err == nil
}
