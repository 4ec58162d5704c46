package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// nodeUse is what the parts on one node hold together. It is derived from the
// jobs and never changed: a change stores another one.
type nodeUse struct {
	cpus        place.CPUSet
	memoryBytes uint64
	devices     []heldShares // ascending by id
	jobs        []uint32     // whose part is not released, ascending
	exclusive   uint32       // the job that has the node for itself; 0 = none
	users       []heldUser   // whose jobs they are, ascending
}

type heldShares struct {
	id     string
	shares uint32
}

// rebook books what a job holds in place of what it held. Only nodes where the
// two differ are touched: the parts of a large job are released one by one.
// old is nil for a new record.
func (s *State) rebook(old, job *Job) {
	before, after := heldParts(old), heldParts(job)
	if old != nil && old.Epoch == job.Epoch && len(before) == len(after) {
		for i := range before {
			s.rebookPart(old, job, &before[i], &after[i])
		}
		return
	}
	for i := range before {
		s.rebookPart(old, job, &before[i], nil)
	}
	for i := range after {
		s.rebookPart(old, job, nil, &after[i])
	}
}

// heldParts are the parts of a job that holds nodes, released ones too.
func heldParts(job *Job) []Part {
	if job == nil || !job.HoldsNodes() {
		return nil
	}
	return job.Run.Parts
}

func (s *State) rebookPart(old, job *Job, before, after *Part) {
	held := before != nil && !before.Released
	holds := after != nil && !after.Released
	switch {
	case held && !holds:
		s.changeUse(before.Node, func(use *nodeUse) { use.remove(old, before) })
	case holds && !held:
		s.changeUse(after.Node, func(use *nodeUse) { use.add(job, after) })
	case held && before.Stands != after.Stands:
		s.changeUse(after.Node, func(use *nodeUse) {
			use.freeCPUs(before)
			use.takeCPUs(after)
		})
	}
}

func (s *State) changeUse(name string, change func(*nodeUse)) {
	old, known := s.nodes.Get(name)
	if !known {
		panic("ctld/state: a part on an unknown node: " + name)
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

func (u *nodeUse) add(job *Job, part *Part) {
	u.takeCPUs(part)
	u.memoryBytes += part.MemoryBytes
	for _, device := range part.Devices {
		u.addDevice(device)
	}
	if at, found := slices.BinarySearch(u.jobs, job.ID); !found {
		u.jobs = slices.Insert(u.jobs, at, job.ID)
		u.addUser(job, 1)
	}
	if job.alone() {
		u.exclusive = job.ID
	}
}

// takeCPUs books the CPUs of a part, unless it stands still.
func (u *nodeUse) takeCPUs(part *Part) {
	if !part.Stands {
		u.cpus = u.cpus.Add(part.CPUs...)
	}
}

func (u *nodeUse) freeCPUs(part *Part) {
	if !part.Stands {
		u.cpus = u.cpus.Remove(part.CPUs...)
	}
}

func (u *nodeUse) addDevice(device HeldDevice) {
	at, found := u.findDevice(device.ID)
	if !found {
		u.devices = slices.Insert(u.devices, at, heldShares{id: device.ID})
	}
	u.devices[at].shares += device.Shares
}

func (u *nodeUse) remove(job *Job, part *Part) {
	u.freeCPUs(part)
	u.memoryBytes -= part.MemoryBytes
	for _, device := range part.Devices {
		at, _ := u.findDevice(device.ID)
		u.devices[at].shares -= device.Shares
		if u.devices[at].shares == 0 {
			u.devices = slices.Delete(u.devices, at, at+1)
		}
	}
	if at, found := slices.BinarySearch(u.jobs, job.ID); found {
		u.jobs = slices.Delete(u.jobs, at, at+1)
		u.addUser(job, -1)
	}
	if u.exclusive == job.ID {
		u.exclusive = 0
	}
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
