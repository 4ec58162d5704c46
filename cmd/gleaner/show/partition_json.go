package show

import (
	"cmp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// partitionOld is a partition in the old shape.
type partitionOld struct {
	Name     string           `json:"name"`
	Default  bool             `json:"default"`
	State    any              `json:"state"`
	Nodes    map[string]any   `json:"nodes"`
	Maximums map[string]any   `json:"maximums"`
	Defaults map[string]any   `json:"defaults"`
	Groups   map[string]any   `json:"groups"`
	Priority map[string]any   `json:"priority"`
	Gleaner  gleanerPartition `json:"gleaner"`
}

// partitionRecord is a partition as Slurm's JSON has it (slurmrestd, "partition_info"), and
// whether it is the default, which that does not say.
type partitionRecord struct {
	*partitionUnused
	Name      string             `json:"name"`
	Default   bool               `json:"default"`
	Nodes     partitionNodeSet   `json:"nodes"`
	Accounts  allowed            `json:"accounts"`
	Groups    allowedOnly        `json:"groups"`
	Qos       allowedQos         `json:"qos"`
	Tres      partitionTresPart  `json:"tres"`
	Cpus      partitionCpus      `json:"cpus"`
	Defaults  partitionDefaults  `json:"defaults"`
	GraceTime uint32             `json:"grace_time"`
	Maximums  partitionMaximums  `json:"maximums"`
	Priority  partitionPriority  `json:"priority"`
	Partition partitionStateOnly `json:"partition"`
	Gleaner   gleanerPartition   `json:"gleaner"`
}

// partitionUnused is what no partition has here.
type partitionUnused struct {
	Alternate   string            `json:"alternate"`
	Cluster     string            `json:"cluster"`
	Minimums    partitionMinimums `json:"minimums"`
	NodeSets    string            `json:"node_sets"`
	SelectType  []string          `json:"select_type"`
	SuspendTime Optional          `json:"suspend_time"`
	Timeouts    partitionTimeouts `json:"timeouts"`
	Topology    string            `json:"topology"`
}

type partitionMinimums struct {
	Nodes uint32 `json:"nodes"`
}

type partitionTimeouts struct {
	Resume  Optional `json:"resume"`
	Suspend Optional `json:"suspend"`
}

type partitionNodeSet struct {
	AllowedAllocation string `json:"allowed_allocation"`
	Configured        string `json:"configured"`
	Total             int    `json:"total"`
	Names             string `json:"names"` // Gleaner's own: configured may be ALL
	Cpus              uint32 `json:"cpus"`
}

type allowed struct {
	Allowed string `json:"allowed"`
	Deny    string `json:"deny"`
}

type allowedOnly struct {
	Allowed string `json:"allowed"`
}

type allowedQos struct {
	allowed
	Assigned string `json:"assigned"`
}

type partitionTresPart struct {
	BillingWeights string `json:"billing_weights"`
	Configured     string `json:"configured"`
}

type partitionCpus struct {
	TaskBinding uint32 `json:"task_binding"`
	Total       uint32 `json:"total"`
}

// partitionDefaults: memory is in MiB.
type partitionDefaults struct {
	MemoryPerCPU          uint64   `json:"memory_per_cpu"`
	PartitionMemoryPerCPU Optional `json:"partition_memory_per_cpu"`
	PartitionMemory       Optional `json:"partition_memory_per_node"`
	Time                  Optional `json:"time"`
	Job                   string   `json:"job"`
}

type partitionMaximums struct {
	CpusPerNode           Optional      `json:"cpus_per_node"`
	CpusPerSocket         Optional      `json:"cpus_per_socket"`
	MemoryPerCPU          uint64        `json:"memory_per_cpu"`
	PartitionMemoryPerCPU Optional      `json:"partition_memory_per_cpu"`
	PartitionMemory       Optional      `json:"partition_memory_per_node"`
	Nodes                 Optional      `json:"nodes"`
	Shares                uint32        `json:"shares"`
	Oversubscribe         oversubscribe `json:"oversubscribe"`
	Time                  Optional      `json:"time"`
	OverTimeLimit         Optional      `json:"over_time_limit"`
}

type oversubscribe struct {
	Jobs  uint32   `json:"jobs"`
	Flags []string `json:"flags"`
}

type partitionPriority struct {
	JobFactor uint32 `json:"job_factor"`
	Tier      uint32 `json:"tier"`
}

type partitionStateOnly struct {
	State []string `json:"state"`
}

type gleanerPartition struct {
	AllowRootJobs    bool     `json:"allow_root_jobs"`
	LeaseAction      string   `json:"lease_action"`
	NestedContainers bool     `json:"nested_containers"`
	Network          string   `json:"network"`
	NetworkAllow     []string `json:"network_allow"`
	NetworkRate      string   `json:"network_rate"`
}

func gleanerPartitionOf(p *pb.Partition) gleanerPartition {
	return gleanerPartition{
		AllowRootJobs: p.GetAllowRootJobs(), LeaseAction: p.GetLeaseAction(), NestedContainers: p.GetNestedContainers(), Network: cmp.Or(p.GetNetwork(), "host"),
		NetworkAllow: append([]string{}, p.GetOutside().GetAllow()...), NetworkRate: spec.FormatRate(p.GetOutside().GetBytesPerSecond()),
	}
}

// partitionState is UP or DOWN.
func partitionState(p *pb.Partition) string {
	if p.GetUp() {
		return "UP"
	}
	return "DOWN"
}

// jobDefaults is "DefMemPerGPU=1024"; "" for none.
func jobDefaults(p *pb.Partition) string {
	if bytes := p.GetDefaultMemoryPerGpuBytes(); bytes > 0 {
		return Item("DefMemPerGPU", Digits(bytes>>20))
	}
	return ""
}

// Partition is a partition as a record of this shape. It may be nil: that of a node in none.
func (s JSONShape) Partition(p *pb.Partition, nodes []*pb.Node, view *View) any {
	if s == JSONOld {
		return s.partitionOld(p, nodes)
	}
	names, cpus := partitionNodes(p, nodes)
	unset, infinite := Optional{Shape: s}, Optional{Shape: s, infinite: true}
	perCPU := p.GetDefaultMemoryPerCpuBytes() >> 20
	configured := p.GetNodes()
	if p != nil {
		configured = cmp.Or(configured, "ALL")
	}
	atOnce := uint32(1)
	if p.GetExclusive() == "node" {
		atOnce = 0 // Slurm's word for whole nodes
	}
	return &partitionRecord{
		partitionUnused: &partitionUnused{SelectType: []string{}, SuspendTime: unset, Timeouts: partitionTimeouts{unset, unset}},
		Name:            p.GetName(), Default: p.GetIsDefault(),
		Nodes:    partitionNodeSet{Configured: configured, Total: len(names), Names: spec.FormatHostList(names), Cpus: cpus},
		Accounts: allowed{Allowed: strings.Join(p.GetAllowAccounts(), ",")}, Groups: allowedOnly{strings.Join(p.GetAllowGroups(), ",")},
		Qos:  allowedQos{allowed{Allowed: strings.Join(p.GetAllowQos(), ",")}, p.GetQos()},
		Tres: partitionTresPart{spec.FormatBillingWeights(p.GetTresBillingWeights()), partitionTres(p, nodes, view)},
		Cpus: partitionCpus{Total: cpus},
		Defaults: partitionDefaults{
			MemoryPerCPU: perCPU, PartitionMemoryPerCPU: s.some(perCPU), PartitionMemory: Optional{Shape: s, set: perCPU == 0},
			Time: s.minutes(p.GetDefaultTimeS()), Job: jobDefaults(p),
		},
		GraceTime: p.GetGraceTimeS(),
		Maximums: partitionMaximums{
			CpusPerNode: infinite, CpusPerSocket: infinite, PartitionMemoryPerCPU: unset, PartitionMemory: s.Count(0), Nodes: infinite,
			Shares: atOnce, Oversubscribe: oversubscribe{atOnce, []string{}}, Time: s.minutes(p.GetMaxTimeS()), OverTimeLimit: unset,
		},
		Priority: partitionPriority{max(p.GetPriorityJobFactor(), 1), p.GetPriorityTier()}, Partition: partitionStateOnly{[]string{partitionState(p)}},
		Gleaner: gleanerPartitionOf(p),
	}
}

func (s JSONShape) partitionOld(p *pb.Partition, nodes []*pb.Node) *partitionOld {
	names, cpus := partitionNodes(p, nodes)
	return &partitionOld{
		Name: p.Name, Default: p.IsDefault, State: partitionState(p),
		Nodes:    map[string]any{"configured": cmp.Or(p.Nodes, "ALL"), "total": len(names), "names": spec.FormatHostList(names), "cpus": cpus},
		Maximums: map[string]any{"time": s.minutes(p.MaxTimeS)},
		Defaults: map[string]any{"time": s.minutes(p.DefaultTimeS), "memory_per_cpu": s.some(p.DefaultMemoryPerCpuBytes >> 20), "memory_per_gpu": s.some(p.DefaultMemoryPerGpuBytes >> 20)},
		Groups:   map[string]any{"allowed": strings.Join(p.AllowGroups, ",")},
		Priority: map[string]any{"tier": p.PriorityTier},
		Gleaner:  gleanerPartitionOf(p),
	}
}

// partitionNodes are the names of a partition's nodes, and their CPUs.
func partitionNodes(p *pb.Partition, nodes []*pb.Node) (names []string, cpus uint32) {
	for _, node := range nodes {
		if MemberOf(node, p.GetName()) {
			names = append(names, node.Name)
			cpus += node.GetInventory().GetCpus()
		}
	}
	return names, cpus
}
