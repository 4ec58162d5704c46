package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Node is a compute node as the controller knows it. A stored Node is never
// changed: a change stores another one.
type Node struct {
	Name string `cbor:"1,keyasint"`
	// Inventory is what it said of itself; nil when it is only named in the
	// policy and has never registered.
	Inventory     *Inventory `cbor:"2,keyasint,omitempty"`
	Instance      string     `cbor:"3,keyasint,omitempty"` // of gnoded, from the last registration
	Drain         bool       `cbor:"4,keyasint,omitempty"`
	Down          bool       `cbor:"5,keyasint,omitempty"`
	NotResponding bool       `cbor:"6,keyasint,omitempty"` // its lease has run out
	Reason        string     `cbor:"7,keyasint,omitempty"`
	ReasonMS      int64      `cbor:"8,keyasint,omitempty"`
	ReasonUser    string     `cbor:"9,keyasint,omitempty"`
	RegisteredMS  int64      `cbor:"10,keyasint,omitempty"`
	LeftOvers     []LeftOver `cbor:"11,keyasint,omitempty"`
	// Shrunk: it registered with less than its jobs hold; it is drained until
	// it has registered with enough.
	Shrunk bool `cbor:"12,keyasint,omitempty"`
	// TroubleMS is since when Inventory.Trouble is set; 0 = it is not.
	TroubleMS int64 `cbor:"13,keyasint,omitempty"`
	// RegisteredBootNS is the CLOCK_BOOTTIME of the last registration, and
	// FormerBoots are the boots before it, newest first: see staleRegistration.
	RegisteredBootNS int64    `cbor:"14,keyasint,omitempty"`
	FormerBoots      []string `cbor:"15,keyasint,omitempty"`
	// Strays are the allocations that it registered with and that no longer
	// belong to it, until they are over: what they hold is not free, whatever
	// is booked.
	Strays []AllocKey `cbor:"16,keyasint,omitempty"`
	// Awaited: it has not registered since a restore; Strangers are the runs
	// that it registered with and that the restored state does not know, until
	// they are over. While any node has either nothing starts: see Restored.
	Awaited   bool       `cbor:"20,keyasint,omitempty"`
	Strangers []AllocKey `cbor:"21,keyasint,omitempty"`
	// WatchedMS is since when losses of jobs on it are counted, Losses how many
	// there were, and LossMS when the last one was.
	WatchedMS int64  `cbor:"30,keyasint,omitempty"`
	Losses    uint32 `cbor:"31,keyasint,omitempty"`
	LossMS    int64  `cbor:"32,keyasint,omitempty"`
	// SilentMS is since when it is NotResponding; 0 = it responds.
	SilentMS int64 `cbor:"33,keyasint,omitempty"`
	// OutageMS is since when it takes no jobs as it does now; 0 = it takes them.
	OutageMS int64 `cbor:"36,keyasint,omitempty"`
	// Faults are the users whose jobs could not start here since the last one
	// that did, oldest first: see noteFault.
	Faults []LaunchFault `cbor:"40,keyasint,omitempty"`
	// Reclaim: its owner has taken it back; nil = lends it.
	Reclaim *Reclaim `cbor:"50,keyasint,omitempty"`
	// HoursOffMS: somebody has ended the calendar's hold that would have lasted until
	// then; 0 = nobody has. See HoursOff.
	HoursOffMS int64 `cbor:"34,keyasint,omitempty"`
	// Lending: on what terms; nil = always, whole, to everybody.
	Lending *Lending `cbor:"35,keyasint,omitempty"`
	// HoldsNumber is that of the last NoteHolds. Holds that the node placed under a
	// number up to HoldsOff were ended at a controller, and it has to drop them.
	HoldsNumber uint64 `cbor:"70,keyasint,omitempty"`
	HoldsOff    uint64 `cbor:"71,keyasint,omitempty"`
	// Evacuation: its jobs leave; nil = they stay.
	Evacuation *Evacuation `cbor:"85,keyasint,omitempty"`

	// Habit is what is known of how its owner takes it back; nil = nothing.
	Habit *Habit `cbor:"420,keyasint,omitempty"`

	use *nodeUse // what its jobs hold; derived, never nil once stored
}

// Inventory is what a node found about itself when it registered.
type Inventory struct {
	CPUs            uint32   `cbor:"1,keyasint,omitempty"`
	RealCPUs        uint32   `cbor:"2,keyasint,omitempty"`
	MemoryBytes     uint64   `cbor:"3,keyasint,omitempty"`
	RealMemoryBytes uint64   `cbor:"4,keyasint,omitempty"`
	Devices         []Device `cbor:"5,keyasint,omitempty"` // ascending by index
	Features        []string `cbor:"6,keyasint,omitempty"` // ascending
	Version         string   `cbor:"7,keyasint,omitempty"`
	OS              string   `cbor:"8,keyasint,omitempty"`
	Arch            string   `cbor:"9,keyasint,omitempty"`
	BootID          string   `cbor:"10,keyasint,omitempty"`
	HostName        string   `cbor:"11,keyasint,omitempty"`
	Address         string   `cbor:"12,keyasint,omitempty"`
	CgroupVersion   string   `cbor:"13,keyasint,omitempty"`
	Sockets         uint32   `cbor:"14,keyasint,omitempty"`
	CoresPerSocket  uint32   `cbor:"15,keyasint,omitempty"`
	ThreadsPerCore  uint32   `cbor:"16,keyasint,omitempty"`
	Trouble         string   `cbor:"17,keyasint,omitempty"` // why it takes no new jobs for now; "" = it takes them
	TmpBytes        uint64   `cbor:"18,keyasint,omitempty"` // that jobs may write to its disk
	TmpPerCPU       uint64   `cbor:"19,keyasint,omitempty"` // bytes that a job which does not ask may write for each of its CPUs
	TmpUnbounded    bool     `cbor:"20,keyasint,omitempty"` // one job may fill the disk
	// ParkBounds are how long parking a guest takes there at most, ascending by model and
	// number of devices: see parkBound.
	ParkBounds []ParkBound `cbor:"40,keyasint,omitempty"`
	// BoundsNetwork: it can bound what guests send and receive. NoNetworkBound says why not.
	BoundsNetwork  bool   `cbor:"41,keyasint,omitempty"`
	NoNetworkBound string `cbor:"42,keyasint,omitempty"`
	// Likewise what their GPUs draw, for which these take no bound below LeastPowerWatts, and
	// what they read from and write to disks.
	BoundsPower     bool   `cbor:"43,keyasint,omitempty"`
	NoPowerBound    string `cbor:"44,keyasint,omitempty"`
	LeastPowerWatts uint32 `cbor:"45,keyasint,omitempty"`
	BoundsIO        bool   `cbor:"46,keyasint,omitempty"`
	NoIOBound       string `cbor:"47,keyasint,omitempty"`
	// NoWayOut is why jobs with a network of their own reach nothing outside through it.
	NoWayOut string `cbor:"48,keyasint,omitempty"`
}

// Device is something that can be allocated to a job.
type Device struct {
	ID           string          `cbor:"1,keyasint"`
	Index        uint32          `cbor:"2,keyasint,omitempty"`
	Model        string          `cbor:"3,keyasint,omitempty"`
	MemoryBytes  uint64          `cbor:"4,keyasint,omitempty"`
	Health       pb.DeviceHealth `cbor:"5,keyasint,omitempty"`
	HealthDetail string          `cbor:"6,keyasint,omitempty"`
	Parent       string          `cbor:"7,keyasint,omitempty"`
	Shares       uint32          `cbor:"8,keyasint,omitempty"` // at least 1
	Links        []string        `cbor:"9,keyasint,omitempty"`
	Product      string          `cbor:"10,keyasint,omitempty"`
	NearCPUs     []uint32        `cbor:"11,keyasint,omitempty"`
}

// LeftOver is something a node could not clean up.
type LeftOver struct {
	What    string `cbor:"1,keyasint,omitempty"`
	Error   string `cbor:"2,keyasint,omitempty"`
	SinceMS int64  `cbor:"3,keyasint,omitempty"`
}

// Available reports whether it takes new jobs.
func (n *Node) Available() bool {
	return n.Inventory != nil && n.Inventory.Trouble == "" && len(n.Strays) == 0 && !n.Drain && !n.Down && !n.NotResponding
}

// BootID of the kernel it last registered with.
func (n *Node) BootID() string {
	if n.Inventory == nil {
		return ""
	}
	return n.Inventory.BootID
}
