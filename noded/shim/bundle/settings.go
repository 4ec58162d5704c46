package bundle

import (
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/cdi"
	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/network"
)

// Settings are what a supervisor needs beside its order. They are kept as
// JSON in the allocation's directory.
type Settings struct {
	StateDir     string       `json:"state_dir"`
	Node         string       `json:"node"`
	InitPath     string       `json:"init_path"`     // of ginit
	CgroupParent string       `json:"cgroup_parent"` // "/gleaner/n1"
	BootID       string       `json:"boot_id"`       // of the node when the allocation was started; Launch fills it in
	Controllers  []string     `json:"controllers"`
	TLSDir       string       `json:"tls_dir"`
	RealCPUs     []int        `json:"real_cpus"` // ids for this allocation; empty = no pinning
	DeviceFiles  []DeviceFile `json:"device_files"`
	OtherDevices []string     `json:"other_devices"` // device files of the node's GPUs that are not this allocation's
	MaxProcesses int64        `json:"max_processes"` // and threads, of the allocation, at most its share of MaxTotalProcesses; 0 = that share
	// MaxTotalProcesses is of all allocations of the node; 0 = what the kernel has room
	// for, less a reserve. NodeCPUs are those of the node; 0 = unknown.
	MaxTotalProcesses int64    `json:"max_total_processes"`
	NodeCPUs          int      `json:"node_cpus"`
	TmpPerCPU         uint64   `json:"tmp_per_cpu"`   // bytes that the allocation may write to this node's disk, for each of its CPUs
	TmpBytes          uint64   `json:"tmp_bytes"`     // that all allocations of the node may write there; 0 = unknown
	TmpUnbounded      bool     `json:"tmp_unbounded"` // it may write as much as there is
	Binds             []string `json:"binds"`         // host directories bound at the same path
	HideDirs          []string `json:"hide_dirs"`     // host directories that look empty inside
	// CommandsDir has the commands, where a login shell would not find them; "" = it does.
	CommandsDir string `json:"commands_dir"`
	// SlurmDir has them under Slurm's names; "" = jobs do not get those.
	SlurmDir string `json:"slurm_dir"`
	// StepPort is the first of StepPorts that no other allocation of the node has; 0 =
	// it has none.
	StepPort   int        `json:"step_port"`
	LogFormat  string     `json:"log_format"` // of package logs
	Checkpoint Checkpoint `json:"checkpoint"`
	Network    Network    `json:"network"`
	Roots      Roots      `json:"roots"`
	Driver     cdi.Driver `json:"driver"` // what the root of an image needs of the node's
}

// Network is what a supervisor needs to give its job a way out, if that has a network of
// its own.
type Network struct {
	Ranges network.Ranges `json:"ranges"`
	WhyNot string         `json:"why_not,omitempty"` // there is no way out on this node; "" = there is
	// WireGuard carries what goes between the nodes of a job; "" = the kernel's if it can.
	WireGuard gangnet.Carrier `json:"wireguard,omitempty"`
}

// Roots is the node's cache of container images.
type Roots struct {
	Dir        string `json:"dir"`
	Program    string `json:"program"` // goci
	LimitBytes uint64 `json:"limit_bytes"`
}

// StepPorts is how many ports an allocation has for its steps.
const StepPorts = 8

// DeviceFile is a device of this allocation, or one that its programs need beside
// them.
type DeviceFile struct {
	Path          string `json:"path"` // on the host
	ContainerPath string `json:"container_path"`
	Type          rune   `json:"type"` // 'c' or 'b'
	Major         int64  `json:"major"`
	Minor         int64  `json:"minor"`
	Access        string `json:"access"`    // "rw"
	Companion     bool   `json:"companion"` // it is no GPU: see checkpoint.Device
}

// Checkpoint is what a supervisor needs to save and restore its allocation.
type Checkpoint struct {
	// Engine is the CRIU that the daemon found; nil = none works here, and
	// WhyNot says what would help.
	Engine   *checkpoint.Engine `json:"engine,omitempty"`
	WhyNot   string             `json:"why_not,omitempty"`
	Stores   images.Config      `json:"stores"`
	TimeoutS uint32             `json:"timeout_s"` // of a save for which nobody says how long it may take
	// MayDial: an image may be fetched straight from the node that has it.
	MayDial bool `json:"may_dial"`
}

// defaultSaveTimeout bounds a save where nobody says how long it may take.
const defaultSaveTimeout = 30 * time.Minute

func (c *Checkpoint) Timeout() time.Duration {
	if c.TimeoutS == 0 {
		return defaultSaveTimeout
	}
	return time.Duration(c.TimeoutS) * time.Second
}
