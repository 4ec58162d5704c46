package show

import (
	"cmp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NodeRecord is a node as Slurm's JSON has it (slurmrestd, "node").
type NodeRecord struct {
	Name            string      `json:"name"`
	Hostname        string      `json:"hostname"`
	Address         string      `json:"address"`
	Architecture    string      `json:"architecture"`
	OperatingSystem string      `json:"operating_system"`
	Version         string      `json:"version"`
	State           any         `json:"state"`
	StateFlags      []string    `json:"state_flags,omitempty"`
	Reason          string      `json:"reason"`
	ReasonChangedAt Optional    `json:"reason_changed_at"`
	ReasonSetBy     string      `json:"reason_set_by_user"`
	Partitions      []string    `json:"partitions"`
	Features        any         `json:"features"`
	ActiveFeatures  any         `json:"active_features"`
	Cpus            uint32      `json:"cpus"`
	AllocCpus       uint32      `json:"alloc_cpus"`
	AllocIdleCpus   uint32      `json:"alloc_idle_cpus"`
	Sockets         uint32      `json:"sockets"`
	Cores           uint32      `json:"cores"`
	Threads         uint32      `json:"threads"`
	RealMemory      uint64      `json:"real_memory"`
	AllocMemory     uint64      `json:"alloc_memory"`
	FreeMem         Optional    `json:"free_mem"` // MiB
	CPULoad         uint64      `json:"cpu_load"` // hundredths; 0 also while it is not known
	Gres            string      `json:"gres"`
	GresUsed        string      `json:"gres_used"`
	Tres            string      `json:"tres"`
	TresUsed        string      `json:"tres_used"`
	Weight          uint32      `json:"weight"`
	Reservation     string      `json:"reservation"`
	SlurmdStartTime Optional    `json:"slurmd_start_time"`
	Gleaner         gleanerNode `json:"gleaner"`
}

// gleanerNode is what Slurm's JSON has no place for.
type gleanerNode struct {
	RealCpus    uint32          `json:"real_cpus"`
	Pretending  bool            `json:"pretending"`
	RunningJobs []uint32        `json:"running_jobs"`
	Devices     []deviceJSON    `json:"devices"`
	LeftOvers   []leftOverJSON  `json:"left_overs"`
	Owner       string          `json:"owner,omitempty"`
	Reclaim     *ReclaimJSON    `json:"reclaim,omitempty"`
	Evacuation  *EvacuationJSON `json:"evacuation,omitempty"`
	Fencing     string          `json:"fencing,omitempty"`
	FrozenJobs  []uint32        `json:"frozen_jobs,omitempty"`
}

type leftOverJSON struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// PartitionRecord is a partition with the few things that it has here.
type PartitionRecord struct {
	Name     string         `json:"name"`
	Default  bool           `json:"default"`
	State    any            `json:"state"`
	Nodes    map[string]any `json:"nodes"`
	Maximums map[string]any `json:"maximums"`
	Defaults map[string]any `json:"defaults"`
	Groups   map[string]any `json:"groups"`
	Priority map[string]any `json:"priority"`
	Gleaner  map[string]any `json:"gleaner"`
}

// Node is a node as a record of this shape.
func (s JSONShape) Node(node *pb.Node, view *View) *NodeRecord {
	inventory := node.GetInventory()
	record := &NodeRecord{
		Name: node.Name, Hostname: hostName(node), Address: nodeAddress(node), Architecture: inventory.GetArch(),
		OperatingSystem: inventory.GetOs(), Version: inventory.GetVersion(), Reason: node.Reason, ReasonSetBy: node.ReasonUser,
		ReasonChangedAt: s.moment(node.ReasonMs), Partitions: append([]string{}, node.Partitions...),
		Cpus: inventory.GetCpus(), AllocCpus: node.AllocatedCpus, AllocIdleCpus: inventory.GetCpus() - min(node.AllocatedCpus, inventory.GetCpus()),
		Sockets: inventory.GetSockets(), Cores: inventory.GetCoresPerSocket(), Threads: inventory.GetThreadsPerCore(),
		RealMemory: inventory.GetMemoryBytes() >> 20, AllocMemory: node.AllocatedMemoryBytes >> 20, FreeMem: s.freeMemory(node), CPULoad: cpuLoad.value(node.GetLoad()),
		Gres: nodeGres(node), GresUsed: nodeGresUsed(node), Tres: view.nodeTres(node), TresUsed: view.nodeTresUsed(node),
		Weight: 1, Reservation: node.Reservation, SlurmdStartTime: s.moment(node.RegisteredMs), Gleaner: gleanerNodeOf(node),
	}
	var flags []string
	if node.Drain {
		flags = append(flags, "DRAIN")
	}
	if node.Maintenance {
		flags = append(flags, "MAINTENANCE")
	}
	if node.Reservation != "" {
		flags = append(flags, "RESERVED")
	}
	if node.Reclaim != nil {
		flags = append(flags, "RECLAIMED")
	}
	if node.NotResponding {
		flags = append(flags, "NOT_RESPONDING")
	}
	features := append([]string{}, inventory.GetFeatures()...)
	record.State, record.Features, record.ActiveFeatures = s.words(strings.ToUpper(baseWord(node)), flags...), features, features
	if s == JSONOld {
		record.State, record.StateFlags = baseWord(node), flags
		record.Features, record.ActiveFeatures = strings.Join(features, ","), strings.Join(features, ",")
	}
	return record
}

func gleanerNodeOf(node *pb.Node) gleanerNode {
	extra := gleanerNode{
		RealCpus: node.GetInventory().GetRealCpus(), Pretending: Pretends(node),
		RunningJobs: append([]uint32{}, node.RunningJobs...), Devices: []deviceJSON{}, LeftOvers: []leftOverJSON{},
		Owner: node.OwnerAccount, Reclaim: ReclaimJSONOf(node.Name, node.Reclaim), Evacuation: EvacuationJSONOf(node.Evacuation), Fencing: node.Fencing, FrozenJobs: node.FrozenJobs,
	}
	held := heldShares(node)
	for _, device := range node.GetInventory().GetDevices() {
		extra.Devices = append(extra.Devices, deviceJSON{
			ID: device.Id, Index: device.Index, Model: device.Model, Product: device.Product, MemoryBytes: device.MemoryBytes,
			Health: healthWord(device), Allocated: held[device.Id] > 0,
		})
	}
	for _, left := range node.LeftOvers {
		extra.LeftOvers = append(extra.LeftOvers, leftOverJSON{What: left.What, Error: left.Error})
	}
	return extra
}

// healthWord is OK, FAILED or RECOVERING.
func healthWord(device *pb.Device) string {
	return strings.TrimPrefix(device.Health.String(), "DEVICE_HEALTH_")
}

// Partition is a partition as a record of this shape.
func (s JSONShape) Partition(p *pb.Partition, nodes []*pb.Node) *PartitionRecord {
	names, cpus := partitionNodes(p, nodes)
	state := "UP"
	if !p.Up {
		state = "DOWN"
	}
	return &PartitionRecord{
		Name: p.Name, Default: p.IsDefault, State: s.words(state),
		Nodes:    map[string]any{"configured": cmp.Or(p.Nodes, "ALL"), "total": len(names), "names": spec.FormatHostList(names), "cpus": cpus},
		Maximums: map[string]any{"time": s.minutes(p.MaxTimeS)},
		Defaults: map[string]any{"time": s.minutes(p.DefaultTimeS), "memory_per_cpu": s.some(p.DefaultMemoryPerCpuBytes >> 20), "memory_per_gpu": s.some(p.DefaultMemoryPerGpuBytes >> 20)},
		Groups:   map[string]any{"allowed": strings.Join(p.AllowGroups, ",")},
		Priority: map[string]any{"tier": p.PriorityTier},
		Gleaner:  map[string]any{"allow_root_jobs": p.AllowRootJobs, "lease_action": p.LeaseAction, "nested_containers": p.NestedContainers, "network": cmp.Or(p.Network, "host"), "network_allow": append([]string{}, p.GetOutside().GetAllow()...), "network_rate": spec.FormatRate(p.GetOutside().GetBytesPerSecond())},
	}
}

// partitionNodes are the names of a partition's nodes, and their CPUs.
func partitionNodes(p *pb.Partition, nodes []*pb.Node) (names []string, cpus uint32) {
	for _, node := range nodes {
		if MemberOf(node, p.Name) {
			names = append(names, node.Name)
			cpus += node.GetInventory().GetCpus()
		}
	}
	return names, cpus
}
