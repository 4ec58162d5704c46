package api

import (
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// Bounds of what is remembered of the machines.
const (
	// machinesTTL is how long an earlier look at the nodes is used. A job is
	// refused only after a new look.
	machinesTTL = time.Second
	// maxShapesTried bounds the shapes remembered to fit since the last look.
	maxShapesTried = 4096
)

// machines remembers what the nodes have, and what would fit on them, because
// every submission needs it and most are alike.
type machines struct {
	mu       sync.Mutex
	snapshot sched.Snapshot
	known    bool // some node has registered
	policy   *policy.Policy
	until    time.Time
	fits     map[state.Digest]bool // shapes that could run
}

// look returns what the nodes have, and whether the shape is known to fit.
func (m *machines) look(view *state.View, shape *state.Shape, fresh bool) (snapshot sched.Snapshot, known, fits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); fresh || m.policy != view.Policy() || now.After(m.until) {
		m.snapshot = view.SchedMachines(now.UnixMilli())
		m.policy, m.until, m.known = view.Policy(), now.Add(machinesTTL), false
		m.fits = make(map[state.Digest]bool)
		for node := range view.Nodes() {
			m.known = m.known || node.Inventory != nil
		}
	}
	return m.snapshot, m.known, m.fits[shape.Digest()]
}

// remember notes that a shape fits what was looked at under a policy.
func (m *machines) remember(shape *state.Shape, site *policy.Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == site && len(m.fits) < maxShapesTried {
		m.fits[shape.Digest()] = true
	}
}

// checkFeasible refuses what could not run even if every node that has ever
// registered were up and idle. Before the first node has registered, everything
// waits.
func (s *Controller) checkFeasible(view *state.View, shape *state.Shape) error {
	policy := view.Policy()
	for _, fresh := range []bool{false, true} {
		snapshot, known, fits := s.machines.look(view, shape, fresh)
		if fits {
			return nil
		}
		if !known {
			continue
		}
		reason, feasible := sched.Feasible(snapshot, state.SchedShape(policy, shape))
		if feasible {
			s.machines.remember(shape, policy)
			return nil
		}
		if fresh {
			return invalid("Requested node configuration is not available: %s", explain.Sentence(reason, snapshot))
		}
	}
	return nil
}
