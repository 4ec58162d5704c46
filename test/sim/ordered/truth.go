package ordered

import (
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// truth is what really happens on the nodes, whatever any controller believes.
type truth struct {
	w       *World
	running map[uint32]map[*node.Shim]bool  // by job: the allocations whose processes run now
	devices map[string]*node.Shim           // the holder of each device, from the start of its container to its end
	results map[registry.Key]*pb.AllocEnded // what the batch host of a run saw
	wereUp  map[registry.Key]int            // allocations of a run that were ever there: ran, or were restored
	sources map[registry.Key]source         // from what a run goes on
	started map[started]bool                // allocations that ever had a supervisor
	counted map[*node.Shim]bool             // those that were ever up
	visits  map[*node.Shim]bool             // suspended ones that run on CPUs that may be others', until their GPUs' memory is copied
	present map[uint32]uint32               // by job: the epoch of its run, by the log

	work   map[uint32]*work                 // by job
	images map[string]*node.Image           // all that ever were, by digest
	seen   map[jobAlloc][]checkpoint.Device // at the start of the script
	away   away
}

// started names an allocation and its node.
type started struct {
	key  registry.Key
	node string
}

func newTruth(w *World) *truth {
	return &truth{
		w: w, running: map[uint32]map[*node.Shim]bool{}, devices: map[string]*node.Shim{},
		results: map[registry.Key]*pb.AllocEnded{}, wereUp: map[registry.Key]int{}, sources: map[registry.Key]source{}, started: map[started]bool{}, counted: map[*node.Shim]bool{}, visits: map[*node.Shim]bool{},
		work: map[uint32]*work{}, images: map[string]*node.Image{}, seen: map[jobAlloc][]checkpoint.Device{}, present: map[uint32]uint32{},
		away: away{since: map[string]int64{}},
	}
}

// take notes what an allocation has from now on.
func (t *truth) take(s *node.Shim) {
	place := started{s.Key, s.Node.Name}
	if t.started[place] {
		t.w.fail("doubled: allocation %s is started on %s once more", s.Key, s.Node.Name)
	}
	t.started[place] = true
	t.checkConstraint(s)
	t.checkRestore(s)
	t.takeDevices(s)
	t.checkCPUs(s)
}

// takeDevices notes that an allocation has its devices from now on: it is started, or gets
// back what the owner of its node had.
func (t *truth) takeDevices(s *node.Shim) {
	for id := range held(s) {
		if other := t.devices[id]; other != nil && other != s {
			t.w.fail("devices twice: %s is taken by allocation %s while allocation %s has it", id, s.Key, other.Key)
		}
		t.devices[id] = s
	}
}

// checkCPUs holds when an allocation takes its CPUs, and when it goes on: no other has
// one of them, but those that are suspended and stand.
func (t *truth) checkCPUs(s *node.Shim) {
	mine := map[uint32]bool{}
	for _, cpu := range s.Share().GetCpuIds() {
		mine[cpu] = true
	}
	for _, other := range s.Node.ShimsInOrder() {
		if other == s || other.Result != nil || !other.Alive || other.Core.Ending || other.IsFrozen() || t.visits[other] {
			continue
		}
		for _, cpu := range other.Share().GetCpuIds() {
			if mine[cpu] {
				t.w.fail("devices twice: CPU %d of %s is allocation %s's while allocation %s has it", cpu, s.Node.Name, s.Key, other.Key)
			}
		}
	}
}

func (t *truth) give(s *node.Shim) {
	for id := range held(s) {
		if t.devices[id] == s {
			delete(t.devices, id)
		}
	}
}

// held are the names of the devices that an order gives an allocation.
func held(s *node.Shim) map[string]bool {
	ids := map[string]bool{}
	for _, d := range s.Share().GetDevices() {
		ids[d.GetDeviceId()] = true
	}
	return ids
}

// runs notes that an allocation's processes run from now on.
func (t *truth) runs(s *node.Shim) {
	of := t.running[s.Key.Job]
	if of == nil {
		of = map[*node.Shim]bool{}
		t.running[s.Key.Job] = of
	}
	for other := range of {
		if other.Key.Epoch != s.Key.Epoch || other.Node == s.Node {
			t.w.fail("doubled: allocation %s runs on %s while allocation %s runs on %s", s.Key, s.Node.Name, other.Key, other.Node.Name)
		}
	}
	of[s] = true
	if left := t.workOf(s.Key.Job).left; left == s.Key {
		t.w.fail("runs on: allocation %s runs, and its job goes on from where it stood", s.Key)
	}
	if present := t.present[s.Key.Job]; s.Key.Epoch > present {
		t.w.fail("undecided: allocation %s runs, and the run of its job is %d", s.Key, present)
	}
	if !s.Began {
		t.there(s)
		t.w.owned.checkBegins(s)
		t.checkDevices(s)
		t.begins(s)
	}
	switch {
	case s.Core.Ending:
	case s.Core.Park.Step == supervise.ParkTaking: // the driver works in them
		t.visits[s] = true
	default:
		t.checkCPUs(s)
	}
	t.checkLimits()
	t.w.trace(s.Node.Name, "allocation %s runs", s.Key)
}

// there counts the allocations of a run that are up, or restored.
func (t *truth) there(s *node.Shim) {
	if !t.counted[s] {
		t.counted[s] = true
		t.wereUp[s.Key]++
	}
}

// noteFrozen notes that they do not run any more, for good or because they are
// frozen.
func (t *truth) noteFrozen(s *node.Shim) {
	delete(t.running[s.Key.Job], s)
	delete(t.visits, s)
	t.comes(s)
	t.w.trace(s.Node.Name, "allocation %s stands still", s.Key)
}

// script checks that a gang's script starts on all of its nodes or on none.
func (t *truth) script(s *node.Shim) {
	if up, all := t.wereUp[s.Key], len(s.Order.GetAllocation()); up < all {
		t.w.fail("half a gang: the script of run %s starts with %d of %d allocations", s.Key, up, all)
	}
}

// ended notes that nothing of an allocation is left, and what its node saw.
func (t *truth) ended(s *node.Shim) {
	t.give(s)
	delete(t.running[s.Key.Job], s)
	delete(t.visits, s)
	if s.IsBatch() {
		t.results[s.Key] = s.Result
	}
	if s.Result.GetCause() == pb.EndCause_END_CAUSE_RECLAIMED {
		t.w.Killed++
	}
	if s.Order.GetRestore() != nil && !s.Began {
		t.excuse(s.Key.Job, "an allocation of it did not go on")
	}
}
