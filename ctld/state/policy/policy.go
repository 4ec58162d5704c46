package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Position is where a partition is in the policy; -1 if it is not.
func (p *Policy) Position(partition string) int {
	at, found := p.IndexOf(partition)
	if !found {
		return -1
	}
	return at
}

// Policy is the replicated configuration: what cluster.toml holds. A stored
// Policy is normalised and never changed.
type Policy struct {
	ClusterName    string      `cbor:"1,keyasint"`
	Partitions     []Partition `cbor:"2,keyasint"` // ascending by name
	Administrators []string    `cbor:"3,keyasint,omitempty"`
	MinJobAgeS     uint32      `cbor:"4,keyasint"`
	KillWaitS      uint32      `cbor:"5,keyasint"`
	MaxArraySize   uint32      `cbor:"6,keyasint"`
	MaxJobCount    uint32      `cbor:"7,keyasint"`
	LeaseS         uint32      `cbor:"8,keyasint"`
	// LeaseMarginS is how much longer the controllers wait before they assume
	// that the jobs of a silent node are stopped; 0 = DefaultLeaseMarginS. See
	// MarginS.
	LeaseMarginS uint32 `cbor:"9,keyasint,omitempty"`

	Priority   Priority   `cbor:"10,keyasint,omitzero"`
	Preempt    Preempt    `cbor:"11,keyasint,omitzero"`
	Licenses   []License  `cbor:"12,keyasint,omitempty"` // ascending by name
	Switches   []Switch   `cbor:"13,keyasint,omitempty"` // ascending by name
	Accounting Accounting `cbor:"14,keyasint,omitzero"`
	// RequeueExit and RequeueExitHold are exit statuses of batch scripts after
	// which a job waits again, in the second case held in the state SPECIAL_EXIT
	// (slurm.conf(5)).
	RequeueExit     []ranges.Range `cbor:"20,keyasint,omitempty"`
	RequeueExitHold []ranges.Range `cbor:"21,keyasint,omitempty"`
	// ImageWait is for how many seconds the node of a job's newest image may be
	// away before the job resumes from an older one; 0 = DefaultImageWaitS. See
	// ImageWaitS.
	ImageWait uint32 `cbor:"23,keyasint,omitempty"`

	// PrivateData are the kinds of information that users see only about
	// themselves, in words of slurm.conf(5), ascending: see Hides.
	PrivateData []string `cbor:"22,keyasint,omitempty"`

	// Network is the rule of partitions without one: see SiteNetwork.
	Network NetworkRule `cbor:"24,keyasint,omitempty"`

	// Outside is what partitions leave out of theirs: see OutsideOf.
	Outside Outside `cbor:"190,keyasint,omitzero"`

	// DefaultMemory is that of partitions without one: see DefaultMemoryOf.
	DefaultMemory DefaultMemory `cbor:"25,keyasint,omitzero"`
	// What one user may have and request; zeros are defaults: see
	// requests.go.
	MaxSubmitJobsPerUser uint32    `cbor:"26,keyasint,omitempty"`
	Rate                 RateLimit `cbor:"27,keyasint,omitzero"`

	Owners    []NodeOwner `cbor:"28,keyasint,omitempty"`  // ascending by account
	Borrowers []Borrower  `cbor:"420,keyasint,omitempty"` // ascending by account

	Scheduler Scheduler `cbor:"480,keyasint,omitzero"`

	Images Images `cbor:"200,keyasint,omitzero"` // which container images jobs may have
	// Mail says how mail about jobs is sent; nil = none is.
	// GangRange are the addresses of networks between the nodes of a job.
	GangRange GangRange `cbor:"720,keyasint,omitzero"`
	Mail      *Mail     `cbor:"680,keyasint,omitempty"`
	Logins    []Login   `cbor:"601,keyasint,omitempty"` // ascending by hosts: see login.go

	topology []TopologySwitch  // the switches with all nodes below each, leaves first
	owners   map[string]string // of Owners: the account by node; nil = there are none
	logins   map[string]*Login // of Logins: by host; nil = there are none
	// mungeLogins are the networks of Logins.
	mungeLogins []mungeLogin
}

// DefaultLeaseMarginS is enough to freeze a job, or to kill one that cannot
// be frozen, on a machine that swaps.
const DefaultLeaseMarginS = 10

// MarginS is the margin in force.
func (p *Policy) MarginS() uint32 { return cmp.Or(p.LeaseMarginS, DefaultLeaseMarginS) }

// Partition is a set of nodes with rules.
type Partition struct {
	Name                string   `cbor:"1,keyasint"`
	Nodes               string   `cbor:"2,keyasint"` // host list; "ALL" = every node
	Default             bool     `cbor:"3,keyasint,omitempty"`
	Up                  bool     `cbor:"4,keyasint,omitempty"`
	MaxTimeS            uint32   `cbor:"5,keyasint"`
	DefaultTimeS        uint32   `cbor:"6,keyasint,omitempty"` // 0 = MaxTimeS
	PriorityTier        uint32   `cbor:"7,keyasint,omitempty"`
	DefaultMemoryPerCPU uint64   `cbor:"8,keyasint,omitempty"` // bytes; 0 = the policy's
	AllowRootJobs       bool     `cbor:"9,keyasint,omitempty"`
	LeaseAction         string   `cbor:"10,keyasint,omitempty"`
	AllowGroups         []string `cbor:"11,keyasint,omitempty"`

	PriorityJobFactor uint32        `cbor:"12,keyasint,omitempty"` // 0 = 1
	BillingWeights    []TRESWeight  `cbor:"13,keyasint,omitempty"` // ascending by name; none = CPUs count 1
	QOS               string        `cbor:"14,keyasint,omitempty"` // its limits hold for the partition's jobs
	PreemptMode       PreemptMode   `cbor:"15,keyasint,omitempty"`
	GraceTimeS        uint32        `cbor:"16,keyasint,omitempty"`
	AllowAccounts     []string      `cbor:"17,keyasint,omitempty"` // none = all
	AllowQOS          []string      `cbor:"18,keyasint,omitempty"` // none = all
	Exclusive         ExclusiveKind `cbor:"19,keyasint,omitempty"`
	Network           NetworkRule   `cbor:"20,keyasint,omitempty"` // see NetworkOf
	Outside           Outside       `cbor:"190,keyasint,omitzero"` // see OutsideOf

	DefaultMemoryPerGPU uint64 `cbor:"21,keyasint,omitempty"` // bytes; 0 = the policy's

	// BfCheckpoint: jobs that can be saved may start in holes. See fill.go.
	BfCheckpoint bool `cbor:"560,keyasint,omitempty"`
	// NestedContainers: see tables.nestedOn.
	NestedContainers bool `cbor:"700,keyasint,omitempty"`

	names []string // of Nodes, ascending; nil for "ALL"
}

// LeaseRunOn is the lease action under which a job continues when its node is
// silent.
const LeaseRunOn = "run-on"

// LeaseFence is the lease action under which a job is frozen at the end of its
// node's lease, and may be started elsewhere after that.
const LeaseFence = "fence"

// Default is what a new cluster starts with.
func Default() *Policy {
	return &Policy{
		ClusterName: "gleaner",
		Partitions: []Partition{{
			Name:         "main",
			Nodes:        allNodes,
			Default:      true,
			Up:           true,
			MaxTimeS:     sched.Unlimited,
			PriorityTier: 1, // as in Slurm, so that another partition can have a lower one
			LeaseAction:  LeaseRunOn,
		}},
		MinJobAgeS:   300,
		KillWaitS:    30,
		MaxArraySize: 1_000_001,
		MaxJobCount:  1_000_000,
		LeaseS:       30,
	}
}

const allNodes = "ALL"

// Partition finds a partition by its name.
func (p *Policy) Partition(name string) (*Partition, bool) {
	at, found := p.IndexOf(name)
	if !found {
		return nil, false
	}
	return &p.Partitions[at], true
}

// IndexOf is the place of a partition in Partitions, or where it would be.
func (p *Policy) IndexOf(name string) (int, bool) {
	return slices.BinarySearchFunc(p.Partitions, name, func(partition Partition, name string) int {
		return cmp.Compare(partition.Name, name)
	})
}

// PartitionNames names some of the partitions.
func (p *Policy) PartitionNames() string {
	const few = 12
	if p.Hides("partitions") {
		return "Ask an administrator which partitions there are"
	}
	var names []string
	for i := range p.Partitions {
		if i == few {
			names = append(names, "…")
			break
		}
		names = append(names, p.Partitions[i].Name)
	}
	if len(names) == 0 {
		return "There is no partition yet: an administrator makes one with gcontrol apply"
	}
	return "Partitions are: " + strings.Join(names, ", ")
}

// DefaultPartition is the partition of jobs that name none; nil when there is
// none.
func (p *Policy) DefaultPartition() *Partition {
	for i := range p.Partitions {
		if p.Partitions[i].Default {
			return &p.Partitions[i]
		}
	}
	if len(p.Partitions) == 1 {
		return &p.Partitions[0]
	}
	return nil
}

// Has reports whether a node belongs to the partition.
func (p *Partition) Has(node string) bool {
	if p.Nodes == allNodes {
		return true
	}
	_, found := slices.BinarySearch(p.names, node)
	return found
}
