package state

// ReleaseNodes ends reclaims: the owner lends the nodes again, and guests run
// there. It may be applied twice without harm: a node that is not reclaimed stays
// as it is. The nodes that were are in Result.Nodes.
type ReleaseNodes struct {
	Names []string `cbor:"1,keyasint"`
	User  string   `cbor:"2,keyasint,omitempty"` // as in ReclaimNodes, and so the rest
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"3,keyasint,omitempty"`
	Privileged  bool   `cbor:"4,keyasint,omitempty"`
}

func (ReleaseNodes) kind() Kind { return KindReleaseNodes }
func (c ReleaseNodes) apply(s *State, result *Result) {
	names := nodesNamed(c.Names)
	if result.Refused = s.checkOwned(names, c.Coordinator, c.Privileged, "release"); result.Refused != nil {
		return
	}
	for _, name := range names {
		if s.releaseNode(name) {
			result.Nodes = append(result.Nodes, name)
		}
	}
}

// EndReclaims ends the reclaims whose time is over, by log time.
type EndReclaims struct{}

func (EndReclaims) kind() Kind { return KindEndReclaims }
func (EndReclaims) apply(s *State, result *Result) {
	for _, name := range s.dueReclaims(s.timeMS) {
		if s.releaseNode(name) {
			result.Nodes = append(result.Nodes, name)
		}
	}
}

// dueReclaims are the nodes whose reclaim is over at a time, ascending by name.
func (t *tables) dueReclaims(nowMS int64) []string {
	var names []string
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		if node, _ := t.nodes.Get(name); node.Reclaim.UntilMS != 0 && node.Reclaim.UntilMS <= nowMS {
			names = append(names, name)
		}
		return true
	})
	return names
}

// ReclaimsEndMS is when the first reclaim ends by itself; 0 = none does.
func (t *tables) ReclaimsEndMS() int64 {
	first := int64(0)
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		if node, _ := t.nodes.Get(name); node.Reclaim.UntilMS != 0 && (first == 0 || node.Reclaim.UntilMS < first) {
			first = node.Reclaim.UntilMS
		}
		return true
	})
	return first
}

// releaseNode ends the reclaim of a node, if there is one. A guest that no node
// has stopped yet has all that it needs, and continues at once; the others do by
// a plan, when their CPUs and devices are free.
func (s *State) releaseNode(name string) bool {
	old, _ := s.nodes.Get(name)
	if old.Reclaim == nil {
		return false
	}
	node := *old
	node.Reclaim = nil
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
