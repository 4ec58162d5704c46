package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// nodeUse is what the allocations on one node hold together. It is derived from
// the jobs and never changed: a change stores another one.
type nodeUse struct {
	cpus         place.CPUSet
	memoryBytes  uint64
	tmpBytes     uint64
	devices      []heldShares // ascending by id
	jobs         []uint32     // whose allocation is not released, ascending
	parked       uint32       // how many of these are parked, and their memory
	parkedMemory uint64
	exclusive    uint32     // the job that has the node to itself; 0 = none
	users        []heldUser // whose jobs share it, ascending; not of those that are parked
}

type heldShares struct {
	id     string
	shares uint32
}

// rebook books what a job holds in place of what it held. Only nodes where the
// two differ are touched: the allocations of a large job are released one by one.
// old is nil for a new record.
func (s *State) rebook(old, job *Job) {
	before, after := heldAllocs(old), heldAllocs(job)
	if slices.EqualFunc(before, after, func(a, b heldAlloc) bool { return a.job.Epoch == b.job.Epoch && a.alloc.Node == b.alloc.Node }) {
		for i := range before {
			s.rebookAlloc(before[i], after[i])
		}
		return
	}
	for i := range before {
		s.rebookAlloc(before[i], heldAlloc{})
	}
	for i := range after {
		s.rebookAlloc(heldAlloc{}, after[i])
	}
}

// heldAlloc is an allocation and the job as its node has it.
type heldAlloc struct {
	job   *Job
	alloc *Alloc
}

func (h heldAlloc) held() bool { return h.alloc != nil && !h.alloc.Released }

// heldAllocs are the allocations of a job that holds nodes, released ones too,
// and those of its other runs.
func heldAllocs(job *Job) []heldAlloc {
	if job == nil || !job.HoldsNodes() {
		return nil
	}
	allocs := make([]heldAlloc, 0, len(job.Run.Allocs))
	add := func(job *Job) {
		for i := range job.Run.Allocs {
			allocs = append(allocs, heldAlloc{job, &job.Run.Allocs[i]})
		}
	}
	add(job)
	for i := range job.Run.Beside {
		add(job.as(&job.Run.Beside[i]))
	}
	return allocs
}

func (s *State) rebookAlloc(before, after heldAlloc) {
	switch {
	case before.held() && !after.held():
		s.changeUse(before.alloc.Node, func(use *nodeUse) { use.remove(before.job, before.alloc) })
	case after.held() && !before.held():
		s.changeUse(after.alloc.Node, func(use *nodeUse) { use.add(after.job, after.alloc) })
	case before.held() && (before.alloc.Frozen != after.alloc.Frozen || before.alloc.Parked != after.alloc.Parked):
		s.changeUse(after.alloc.Node, func(use *nodeUse) {
			use.freeHardware(before.job, before.alloc)
			use.takeHardware(after.job, after.alloc)
		})
	}
}

func (s *State) changeUse(name string, change func(*nodeUse)) {
	old, known := s.nodes.Get(name)
	if !known {
		panic("ctld/state: an allocation on an unknown node: " + name)
	}
	node := *old
	use := old.use.clone()
	change(use)
	node.use = use
	s.nodes.Set(name, &node)
	s.changes.nodes = append(s.changes.nodes, name)
}

func (u *nodeUse) clone() *nodeUse {
	c := *u
	c.devices = slices.Clone(u.devices)
	c.jobs = slices.Clone(u.jobs)
	c.users = slices.Clone(u.users)
	return &c
}

func (u *nodeUse) add(job *Job, alloc *Alloc) {
	u.memoryBytes += alloc.MemoryBytes
	u.tmpBytes += alloc.TmpBytes
	if at, found := slices.BinarySearch(u.jobs, job.ID); !found {
		u.jobs = slices.Insert(u.jobs, at, job.ID)
	}
	u.takeHardware(job, alloc)
}

// takeHardware books the CPUs of an allocation unless it is stopped; and its
// devices, and that its job is one of those that share the node, unless it is
// parked.
func (u *nodeUse) takeHardware(job *Job, alloc *Alloc) {
	if !alloc.Frozen {
		u.cpus = u.cpus.Add(alloc.CPUs...)
	}
	if alloc.Parked {
		u.parked++
		u.parkedMemory += alloc.MemoryBytes
		return
	}
	for _, device := range alloc.Devices {
		u.addDevice(device)
	}
	u.addUser(job, 1)
	if job.alone() {
		u.exclusive = job.ID
	}
}

// freeHardware is the opposite.
func (u *nodeUse) freeHardware(job *Job, alloc *Alloc) {
	if !alloc.Frozen {
		u.cpus = u.cpus.Remove(alloc.CPUs...)
	}
	if alloc.Parked {
		u.parked--
		u.parkedMemory -= alloc.MemoryBytes
		return
	}
	for _, device := range alloc.Devices {
		at, _ := u.findDevice(device.ID)
		u.devices[at].shares -= device.Shares
		if u.devices[at].shares == 0 {
			u.devices = slices.Delete(u.devices, at, at+1)
		}
	}
	u.addUser(job, -1)
	if u.exclusive == job.ID {
		u.exclusive = 0
	}
}

// shared is how many jobs share the node: a parked one is there only in memory.
func (u *nodeUse) shared() int { return len(u.jobs) - int(u.parked) }

func (u *nodeUse) addDevice(device HeldDevice) {
	at, found := u.findDevice(device.ID)
	if !found {
		u.devices = slices.Insert(u.devices, at, heldShares{id: device.ID})
	}
	u.devices[at].shares += device.Shares
}

func (u *nodeUse) remove(job *Job, alloc *Alloc) {
	u.memoryBytes -= alloc.MemoryBytes
	u.tmpBytes -= alloc.TmpBytes
	if at, found := slices.BinarySearch(u.jobs, job.ID); found {
		u.jobs = slices.Delete(u.jobs, at, at+1)
	}
	u.freeHardware(job, alloc)
}

func (u *nodeUse) findDevice(id string) (int, bool) {
	return slices.BinarySearchFunc(u.devices, id, func(held heldShares, id string) int {
		return cmp.Compare(held.id, id)
	})
}

func (u *nodeUse) sharesOf(id string) uint32 {
	if at, found := u.findDevice(id); found {
		return u.devices[at].shares
	}
	return 0
}

// freeMemory is what is left of the node's memory for jobs.
func (n *Node) freeMemory() uint64 {
	if n.Inventory == nil || n.use.memoryBytes > n.Inventory.MemoryBytes {
		return 0
	}
	return n.Inventory.MemoryBytes - n.use.memoryBytes
}

// freeTmp is what jobs may still write to the node's disk. It may be less than
// its jobs hold, if something else has filled the disk since.
func (n *Node) freeTmp() uint64 {
	if n.Inventory == nil || n.use.tmpBytes > n.Inventory.TmpBytes {
		return 0
	}
	return n.Inventory.TmpBytes - n.use.tmpBytes
}

// device finds a device of the inventory; nil when there is none.
func (n *Node) device(id string) *Device {
	if n.Inventory == nil {
		return nil
	}
	for i := range n.Inventory.Devices {
		if n.Inventory.Devices[i].ID == id {
			return &n.Inventory.Devices[i]
		}
	}
	return nil
}
