// Package place answers one question: on which nodes, CPUs and devices does a
// request fit, given what is free?
//
// Contract: pure arithmetic on plain values; standard library only; imports
// nothing of this project. Ties are broken by node index, then by device
// index, so the answer is the same everywhere. What Fit places, fits: whole or
// not at all, on one model of device, and within what is free.
//
// Cost: Fit looks once at each candidate and its devices, and sorts the nodes
// that can take part; for a job of one node it does not sort. With a network it
// does so once for the nodes below each switch that it looks at, the lowest
// switches first; with alternatives ("[a|b]"), once for each.
//
// Fit finds a placement whenever there is one, with two exceptions. A request
// for a number of tasks and a number of GPUs over the whole job, on nodes that
// are rich in the one and poor in the other, is tried in a few good orders and
// not in all of them. And of the sets of leaf switches that a limit on their
// number leaves, and of the rows of nodes that follow each other, only some are
// tried when there are very many (maxSets).
package place

// NodeIndex is a position in the caller's list of nodes.
type NodeIndex int32

// DeviceIndex is a position in Node.Devices.
type DeviceIndex int32

// WholeDevice is the Parent of a device that is no slice of another.
const WholeDevice DeviceIndex = -1

// Node is one compute node and what is free on it.
type Node struct {
	Name      string
	Available bool   // takes new jobs: up, not drained, responding
	CPUs      CPUSet // all that jobs may be given
	FreeCPUs  CPUSet
	// AwaitedCPUs are those that suspended jobs had, and without which they do not
	// continue: other jobs get them only where there are no others.
	AwaitedCPUs CPUSet
	MemoryBytes uint64
	FreeMemory  uint64
	// ParkedMemory is what jobs have that are parked there: a job that gets all
	// memory of the node gets the rest.
	ParkedMemory uint64
	TmpBytes     uint64   // that jobs may write to its disk, all together
	FreeTmp      uint64   // of that nobody has
	TmpPerCPU    uint64   // of it for each CPU of a job that does not ask
	TmpOpen      bool     // one job may fill the disk: nothing of it is counted
	Devices      []Device // ascending by Index
	Features     []string // ascending
	Busy         bool     // some job runs there
	Exclusive    bool     // a job has it to itself
	Guests       Guests
	Users        []uint32 // whose jobs run there, ascending
	UserOnly     bool     // a job there does not share with other users
	Wired        bool     // the network is known: see Wire
	Above        []*Switch
}

// Device is something a job can be given: a whole GPU, or a slice whose
// Parent is the GPU. Slices are described and not given to jobs.
type Device struct {
	ID         string
	Index      uint32
	Model      string
	Healthy    bool
	Parent     DeviceIndex // WholeDevice = a whole device
	Shares     uint32      // in all; 1 for a whole GPU
	FreeShares uint32
	Links      []DeviceIndex // ascending; devices with a fast link to this one
	NearCPUs   CPUSet        // empty = all
	Kept       bool          // for the owner of the node: guests there do not get it
	Awaited    bool          // as AwaitedCPUs: a parked job had it
}

// Request is what one job needs. Zero means "not asked".
//
// With Tasks, the job gets as many nodes as the tasks need within the bounds,
// and TasksPerNode is the most that a node may hold; with TasksPerNode alone
// every node holds that many; with neither, one. With GPUsPerTask or
// TasksPerGPU the devices on a node follow from its tasks, and no other number
// of devices is given.
type Request struct {
	MinNodes      uint32 // 0 = 1, or more if the tasks or GPUs need it
	MaxNodes      uint32 // 0 = MinNodes, or without MinNodes as many as the tasks and GPUs need
	MostNodes     bool   // of several numbers of nodes the highest, and not the lowest
	Tasks         uint32
	TasksPerNode  uint32
	EvenTasks     bool   // laid out evenly over the nodes, and not block by block
	CPUsPerTask   uint32 // 0 = 1
	CPUsPerGPU    uint32 // in place of CPUsPerTask; a task has at least one
	MemoryPerNode uint64 // bytes; at most one of the three memory fields may be set
	MemoryPerCPU  uint64 // bytes; with none set the job gets all memory of its nodes
	MemoryPerGPU  uint64 // bytes
	TmpPerNode    uint64 // bytes of the node's disk; 0 = what the node gives by CPUs
	GPUsPerNode   uint32
	GPUsPerJob    uint32   // at least one on each node; evenly where that fits
	GPUsPerTask   uint32   // at most one of this and the next
	TasksPerGPU   uint32   // Tasks is a multiple of it
	Model         string   // of all its devices; "" = any one model
	RequiredNodes []string // ascending; part of the allocation
	ExcludedNodes []string // ascending
	AmongNodes    []string // ascending; no other is part of it. nil = any may be
	GuestOn       []string // ascending; what is kept there is not for this job
	Constraint    Constraint
	Switches      uint32 // at most so many leaf switches; 0 = any number
	Contiguous    bool   // its nodes follow each other in the list of nodes
	// Exclusive gives the job its nodes alone, with all their CPUs and, as in
	// Slurm, all their devices, though of one model.
	Exclusive bool
	// ExclusiveUser: no jobs of others on the same node. Then, and for nodes
	// that are UserOnly, it matters who the User is.
	ExclusiveUser bool
	User          uint32
}

// Placement is one job placed as a whole: its allocations in ascending node
// order.
type Placement struct {
	Allocs []Alloc
	// User is the job's user, and UserOnly says that it shares its nodes with
	// no other user's jobs: Take notes both on the nodes.
	User     uint32
	UserOnly bool
}

// Alloc is what a job gets on one node.
type Alloc struct {
	Node        NodeIndex
	CPUs        CPUSet
	MemoryBytes uint64
	TmpBytes    uint64  // of the node's disk; 0 = no bound
	Devices     []Grant // ascending by device
	Tasks       uint32
	Guest       bool // it counts against the node's Guests
}

// Grant is one device, or shares of one.
type Grant struct {
	Device DeviceIndex
	Shares uint32
}

// Shortage says what was lacking, and how much the best choice of nodes had.
type Shortage struct {
	What What
	// Need and Have are amounts on one node if PerNode, and of the whole job
	// otherwise; bytes for memory, nodes for Nodes, Model, Feature and Host.
	Need uint64
	Have uint64 // the most that any one node has, if PerNode
	// PerNode: NeedNodes nodes must each have Need, HaveNodes do.
	PerNode   bool
	NeedNodes uint32
	HaveNodes uint32
	HaveOn    string // the first node that has Have, if PerNode; "" = none has any
	Name      string // the model, features or host that is meant; "" = any
	Among     Among  // which nodes Have and HaveNodes are about
	// Whole: all of a node's memory is needed, since the request names no
	// amount; or nodes without any other job, since it wants them alone.
	Whole bool
	// Unshared: there are nodes that jobs of other users keep this one from,
	// because one of them does not share with other users.
	Unshared bool
	// Excluding: the request itself excludes nodes, which Have leaves out.
	Excluding bool
	// Limit is how many leaf switches the request may use, for Leaves.
	Limit uint32
}

// What names a kind of resource in a Shortage.
type What uint8

// Kinds of resource.
const (
	Nothing What = iota
	Nodes
	CPUs
	Memory
	GPUs
	Model
	Feature
	Host
	Bounds // the counts of nodes, tasks and GPUs contradict each other
	Leaves // nodes on few enough switches: Have on HaveOn, the best of them
	Rows   // nodes that follow each other
	Tmp    // of the node's disk
)

// Among says which nodes a shortage is about.
type Among uint8

// Sets of nodes.
const (
	AllNodes      Among = iota
	SuitableNodes       // those that have enough of everything else checked before
	NamedNodes          // the required ones
)
