package ordered

import (
	"cmp"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// truth is what really happens on the nodes, whatever any controller believes.
type truth struct {
	w       *World
	running map[uint32]map[*shim]bool // by job: the parts whose processes run now
	devices map[string]*shim          // who has a device, from the start of its container to its end
	results map[partKey]*pb.PartEnded // what the batch host of a run saw
	wereUp  map[partKey]int           // parts of a run that were ever there: ran, or were restored
	sources map[partKey]source        // from what a run goes on
	started map[started]bool          // parts that ever had a supervisor

	work       map[uint32]*work  // by job
	images     map[string]*image // all that ever were, by digest
	imageCount int
}

// started names a part and its node.
type started struct {
	key  partKey
	node string
}

func newTruth(w *World) *truth {
	return &truth{
		w: w, running: map[uint32]map[*shim]bool{}, devices: map[string]*shim{},
		results: map[partKey]*pb.PartEnded{}, wereUp: map[partKey]int{}, sources: map[partKey]source{}, started: map[started]bool{},
		work: map[uint32]*work{}, images: map[string]*image{},
	}
}

// take notes what a part has from now on.
func (t *truth) take(m *machine, s *shim) {
	place := started{s.key, m.name}
	if t.started[place] {
		t.w.fail("doubled: part %s is started on %s once more", s.key, m.name)
	}
	t.started[place] = true
	t.checkConstraint(m, s)
	t.checkRestore(m, s)
	for id := range held(m, s) {
		if other := t.devices[id]; other != nil {
			t.w.fail("devices twice: %s is taken by part %s while part %s has it", id, s.key, other.key)
		}
		t.devices[id] = s
	}
	t.checkCPUs(m, s)
}

// checkCPUs holds when a part takes its CPUs, and when it goes on: no other has
// one of them, but those that are suspended and stand.
func (t *truth) checkCPUs(m *machine, s *shim) {
	mine := map[uint32]bool{}
	for _, cpu := range cpusOf(m, s) {
		mine[cpu] = true
	}
	for _, other := range m.shimsInOrder() {
		if other == s || other.result != nil || !other.alive || other.ending || other.stands() {
			continue
		}
		for _, cpu := range cpusOf(m, other) {
			if mine[cpu] {
				t.w.fail("devices twice: CPU %d of %s is part %s's while part %s has it", cpu, m.name, s.key, other.key)
			}
		}
	}
}

func cpusOf(m *machine, s *shim) []uint32 {
	for _, a := range s.order.GetAllocation() {
		if a.GetNode() == m.name {
			return a.GetCpuIds()
		}
	}
	return nil
}

func (t *truth) give(m *machine, s *shim) {
	for id := range held(m, s) {
		if t.devices[id] == s {
			delete(t.devices, id)
		}
	}
}

// held are the names of the devices that an order gives a part.
func held(m *machine, s *shim) map[string]bool {
	ids := map[string]bool{}
	for _, a := range s.order.GetAllocation() {
		if a.GetNode() != m.name {
			continue
		}
		for _, d := range a.GetDevices() {
			ids[d.GetDeviceId()] = true
		}
	}
	return ids
}

// runs notes that a part's processes run from now on.
func (t *truth) runs(m *machine, s *shim) {
	of := t.running[s.key.job]
	if of == nil {
		of = map[*shim]bool{}
		t.running[s.key.job] = of
	}
	for other := range of {
		if other.key.epoch != s.key.epoch || other.m == m {
			t.w.fail("doubled: part %s runs on %s while part %s runs on %s", s.key, m.name, other.key, other.m.name)
		}
	}
	of[s] = true
	if left := t.workOf(s.key.job).left; left == s.key {
		t.w.fail("runs on: part %s runs, and its job goes on from where it stood", s.key)
	}
	s.ranAt = t.w.now
	for _, i := range s.mine {
		i.ranOn = cmp.Or(i.ranOn, t.w.now)
	}
	if !s.began {
		s.began = true
		t.there(s)
		t.begins(s)
	}
	if !s.ending {
		t.checkCPUs(m, s)
	}
	t.checkLimits()
	t.w.trace(m.name, "part %s runs", s.key)
}

// there counts the parts of a run that are up, or restored.
func (t *truth) there(s *shim) {
	if !s.counted {
		s.counted = true
		t.wereUp[s.key]++
	}
}

// stands notes that they do not run any more, for good or because they are
// frozen.
func (t *truth) stands(m *machine, s *shim) {
	delete(t.running[s.key.job], s)
	t.comes(s)
	t.w.trace(m.name, "part %s stands still", s.key)
}

// script checks that a gang's script starts on all of its nodes or on none.
func (t *truth) script(s *shim) {
	if up, all := t.wereUp[s.key], len(s.order.GetAllocation()); up < all {
		t.w.fail("half a gang: the script of run %s starts with %d of %d parts", s.key, up, all)
	}
}

// ended notes that nothing of a part is left, and what its node saw.
func (t *truth) ended(m *machine, s *shim, result *pb.PartEnded) {
	t.give(m, s)
	delete(t.running[s.key.job], s)
	if s.isBatch() {
		t.results[s.key] = result
	}
	if s.order.GetRestore() != nil && !s.began {
		t.excuse(s.key.job, "a part of it did not go on")
	}
}

func cause(result *pb.PartEnded) string { return result.GetCause().String()[len("END_CAUSE_"):] }
