package place

// This file is for plans: what is free of a node, and what a job takes of it, as
// numbers only. Which CPU or device it is does not matter until the job starts: what
// is free in numbers through the whole time of a job can always be given to it one by
// one when its time comes.

// Room is amounts of a node, by kind. Behind the kinds that each node has are its
// devices by model and by whether they are kept, if they differ in that.
type Room []int64

// Kinds of a Room.
const (
	RoomJobs   = iota // WholeNode is a node without jobs; a job takes one, or all if it is alone
	RoomCPUs          //
	RoomMemory        // bytes
	RoomTmp           // bytes
	RoomGPUs          // of all models
	RoomGuestGPUs
	RoomGuestMemory // bytes
	RoomGuestTmp    // bytes
	roomKinds
)

// WholeNode is the RoomJobs of a node without jobs.
const WholeNode = 1 << 20

// class is devices of a node that are alike to those who count them.
type class struct {
	model string
	kept  bool
}

func (d *Device) class() class { return class{d.Model, d.Kept} }

// classes are those of the node, in the order of its devices.
func (n *Node) classes() []class {
	var classes []class
	for i := range n.Devices {
		of := n.Devices[i].class()
		if len(classes) > 0 && classes[len(classes)-1] == of {
			continue
		}
		if indexOf(classes, of) < 0 {
			classes = append(classes, of)
		}
	}
	return classes
}

// oneClass reports whether it has one at most.
func (n *Node) oneClass() bool {
	for i := range n.Devices {
		if n.Devices[i].class() != n.Devices[0].class() {
			return false
		}
	}
	return true
}

func indexOf(classes []class, of class) int {
	for i := range classes {
		if classes[i] == of {
			return i
		}
	}
	return -1
}

// room is an empty Room with the kinds of the node, in this memory if there is enough of
// it; classes is nil if it has one.
func (n *Node) room(memory Room) (room Room, classes []class) {
	if !n.oneClass() {
		classes = n.classes()
	}
	kinds := roomKinds + len(classes)
	if cap(memory) < kinds {
		return make(Room, kinds), classes
	}
	clear(memory[:kinds])
	return memory[:kinds], classes
}

// Room is what is free now. jobs is how many jobs share the node, as far as they are
// known.
func (n *Node) Room(jobs int) Room {
	room, classes := n.room(nil)
	room[RoomJobs] = WholeNode - int64(jobs)
	switch {
	case n.Exclusive:
		room[RoomJobs] = 0
	case n.Busy && jobs == 0:
		room[RoomJobs]--
	}
	room[RoomCPUs] = int64(n.FreeCPUs.Count())
	room[RoomMemory], room[RoomTmp] = int64(n.FreeMemory), int64(n.FreeTmp)
	room[RoomGuestGPUs], room[RoomGuestMemory], room[RoomGuestTmp] = int64(n.Guests.FreeGPUs), int64(n.Guests.FreeBytes), int64(n.Guests.FreeTmp)
	for i := range n.Devices {
		if d := &n.Devices[i]; d.free(false) {
			room.addDevice(d, classes)
		}
	}
	return room
}

func (room Room) addDevice(d *Device, classes []class) {
	room[RoomGPUs]++
	if classes != nil {
		room[roomKinds+indexOf(classes, d.class())]++
	}
}

// RoomOf is what an allocation on the node takes; shares says that the job shares the
// node with others at all, which a parked one does not.
func (n *Node) RoomOf(alloc *Alloc, exclusive, shares bool) Room {
	room, classes := n.room(nil)
	switch {
	case exclusive && shares:
		room[RoomJobs] = WholeNode
	case shares:
		room[RoomJobs] = 1
	}
	room[RoomCPUs] = int64(alloc.CPUs.Intersect(n.CPUs).Count())
	room[RoomMemory], room[RoomTmp] = int64(alloc.MemoryBytes), int64(alloc.TmpBytes)
	for _, grant := range alloc.Devices {
		if d := &n.Devices[grant.Device]; d.Healthy && d.Parent == WholeDevice {
			room.addDevice(d, classes)
		}
	}
	if alloc.Guest {
		room[RoomGuestGPUs], room[RoomGuestMemory], room[RoomGuestTmp] = int64(len(alloc.Devices)), int64(alloc.MemoryBytes), int64(alloc.TmpBytes)
	}
	return room
}

// Add adds what comes free, and Sub takes away what is taken.
func (room Room) Add(freed Room) {
	for kind := range room {
		room[kind] += freed[kind]
	}
}

func (room Room) Sub(taken Room) {
	for kind := range room {
		room[kind] -= taken[kind]
	}
}

// RoomFor is the least that the request takes on the node, if it is placed there. It lies in
// in, if there is enough memory there.
func (n *Node) RoomFor(r *Request, least *Least, in Room) Room {
	room, classes := n.room(in)
	cpus, memory, gpus := least.NodeCPUs, least.NodeMemoryBytes, least.NodeGPUs
	if _, high := r.NodeBounds(); high == 1 {
		cpus, memory, gpus = least.CPUs, least.MemoryBytes, least.GPUs
	}
	room[RoomJobs], room[RoomCPUs] = 1, int64(max(cpus, 1))
	if r.Exclusive {
		room[RoomJobs], room[RoomCPUs] = WholeNode, int64(n.CPUs.Count())
	}
	room[RoomMemory] = int64(memory)
	if least.WholeMemory {
		room[RoomMemory] = int64(n.wholeMemory())
	}
	switch {
	case n.TmpOpen:
	case r.TmpPerNode > 0:
		room[RoomTmp] = int64(r.TmpPerNode)
	default:
		room[RoomTmp] = room[RoomCPUs] * int64(n.TmpPerCPU)
	}
	room[RoomGPUs] = int64(gpus)
	for i, of := range classes {
		if r.Model == of.model && len(n.classesOf(of.model)) == 1 {
			room[roomKinds+i] = room[RoomGPUs]
		}
	}
	if r.bound(n) {
		room[RoomGuestGPUs], room[RoomGuestTmp] = room[RoomGPUs], room[RoomTmp]
		room[RoomGuestMemory] = room[RoomMemory]
		if least.WholeMemory {
			room[RoomMemory] = int64(min(n.wholeMemory(), n.Guests.MemoryBytes))
			room[RoomGuestMemory] = room[RoomMemory]
		}
	}
	return room
}

// classesOf are the classes of the node's devices of one model.
func (n *Node) classesOf(model string) []class {
	var of []class
	for _, c := range n.classes() {
		if c.model == model {
			of = append(of, c)
		}
	}
	return of
}

// Plain reports whether what a request takes on a node is the same on each of its
// nodes and at each time, so that it fits wherever there is room for that.
func (r *Request) Plain(n *Node) bool {
	_, high := r.NodeBounds()
	return (high == 1 || r.Tasks == 0 && r.GPUsPerJob == 0) && !r.bound(n) && (!r.WantsGPUs() || n.oneClass())
}

// Has reports whether the node has the devices of an allocation.
func (n *Node) Has(alloc *Alloc) bool {
	for _, grant := range alloc.Devices {
		if int(grant.Device) >= len(n.Devices) {
			return false
		}
	}
	return true
}

// Names reports whether the request may be placed on the node, whatever is free there.
func (r *Request) Names(n *Node) bool {
	w := want{Request: r}
	return n.Available && w.named(n)
}

// Within is the node with no more free than there is room for, for one more job.
func (n *Node) Within(room Room, exclusive bool) Node {
	out := *n
	if room[RoomJobs] < 1 || exclusive && room[RoomJobs] < WholeNode {
		out.Available = false
		return out
	}
	if cpus := max(room[RoomCPUs], 0); int64(out.FreeCPUs.Count()) > cpus {
		out.FreeCPUs = out.FreeCPUs.Take(int(cpus))
	}
	out.FreeMemory = atMost(out.FreeMemory, room[RoomMemory])
	out.FreeTmp = atMost(out.FreeTmp, room[RoomTmp])
	out.Guests.FreeGPUs = uint32(atMost(uint64(out.Guests.FreeGPUs), room[RoomGuestGPUs]))
	out.Guests.FreeBytes = atMost(out.Guests.FreeBytes, room[RoomGuestMemory])
	out.Guests.FreeTmp = atMost(out.Guests.FreeTmp, room[RoomGuestTmp])
	out.hideDevices(room)
	return out
}

func atMost(free uint64, room int64) uint64 { return min(free, uint64(max(room, 0))) }

// hideDevices leaves as many devices free as there is room for, the lowest.
func (n *Node) hideDevices(room Room) {
	var classes []class
	if len(room) > roomKinds {
		classes = n.classes()
	}
	left := append([]int64{room[RoomGPUs]}, room[roomKinds:]...)
	copied := false
	for i := range n.Devices {
		d := &n.Devices[i]
		if !d.free(false) {
			continue
		}
		of := 0
		if classes != nil {
			of = 1 + indexOf(classes, d.class())
		}
		if left[0] > 0 && left[of] > 0 {
			if left[0]--; of > 0 {
				left[of]--
			}
			continue
		}
		if !copied {
			devices := make([]Device, len(n.Devices))
			copy(devices, n.Devices)
			n.Devices, copied = devices, true
		}
		n.Devices[i].FreeShares = 0
	}
}

// Ahead is the node as it may be later, with all free that jobs there hold now: what
// of it is free at a time, Within says. The memory of parked jobs is not.
func (n *Node) Ahead(room Room) Node {
	out := Idle(*n, false)
	out.ParkedMemory = n.ParkedMemory
	out.Busy = room[RoomJobs] < WholeNode
	return out
}
