package main

import (
	"cmp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// nodeRecord is a node as Slurm's JSON has it (slurmrestd, "node").
type nodeRecord struct {
	Name            string      `json:"name"`
	Hostname        string      `json:"hostname"`
	Address         string      `json:"address"`
	Architecture    string      `json:"architecture"`
	OperatingSystem string      `json:"operating_system"`
	Version         string      `json:"version"`
	State           any         `json:"state"`
	StateFlags      []string    `json:"state_flags,omitempty"`
	Reason          string      `json:"reason"`
	ReasonChangedAt optional    `json:"reason_changed_at"`
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
	Gres            string      `json:"gres"`
	GresUsed        string      `json:"gres_used"`
	Tres            string      `json:"tres"`
	TresUsed        string      `json:"tres_used"`
	Weight          uint32      `json:"weight"`
	SlurmdStartTime optional    `json:"slurmd_start_time"`
	Gleaner         gleanerNode `json:"gleaner"`
}

// gleanerNode is what Slurm's JSON has no place for.
type gleanerNode struct {
	RealCpus    uint32         `json:"real_cpus"`
	Pretending  bool           `json:"pretending"`
	RunningJobs []uint32       `json:"running_jobs"`
	Devices     []deviceJSON   `json:"devices"`
	LeftOvers   []leftOverJSON `json:"left_overs"`
	Fencing     string         `json:"fencing,omitempty"`
	FrozenJobs  []uint32       `json:"frozen_jobs,omitempty"`
}

type leftOverJSON struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// partitionRecord is a partition with the few things that it has here.
type partitionRecord struct {
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

// node is a node as a record of this shape.
func (s jsonShape) node(node *pb.Node, view *view) *nodeRecord {
	inventory := node.GetInventory()
	record := &nodeRecord{
		Name: node.Name, Hostname: hostName(node), Address: nodeAddress(node), Architecture: inventory.GetArch(),
		OperatingSystem: inventory.GetOs(), Version: inventory.GetVersion(), Reason: node.Reason, ReasonSetBy: node.ReasonUser,
		ReasonChangedAt: s.moment(node.ReasonMs), Partitions: append([]string{}, node.Partitions...),
		Cpus: inventory.GetCpus(), AllocCpus: node.AllocatedCpus, AllocIdleCpus: inventory.GetCpus() - min(node.AllocatedCpus, inventory.GetCpus()),
		Sockets: inventory.GetSockets(), Cores: inventory.GetCoresPerSocket(), Threads: inventory.GetThreadsPerCore(),
		RealMemory: inventory.GetMemoryBytes() >> 20, AllocMemory: node.AllocatedMemoryBytes >> 20,
		Gres: nodeGres(node), GresUsed: nodeGresUsed(node), Tres: view.nodeTres(node), TresUsed: view.nodeTresUsed(node),
		Weight: 1, SlurmdStartTime: s.moment(node.RegisteredMs), Gleaner: gleanerNodeOf(node),
	}
	var flags []string
	if node.Drain {
		flags = append(flags, "DRAIN")
	}
	if node.NotResponding {
		flags = append(flags, "NOT_RESPONDING")
	}
	features := append([]string{}, inventory.GetFeatures()...)
	record.State, record.Features, record.ActiveFeatures = s.words(strings.ToUpper(baseWord(node)), flags...), features, features
	if s == jsonOld {
		record.State, record.StateFlags = baseWord(node), flags
		record.Features, record.ActiveFeatures = strings.Join(features, ","), strings.Join(features, ",")
	}
	return record
}

func gleanerNodeOf(node *pb.Node) gleanerNode {
	extra := gleanerNode{
		RealCpus: node.GetInventory().GetRealCpus(), Pretending: pretends(node),
		RunningJobs: append([]uint32{}, node.RunningJobs...), Devices: []deviceJSON{}, LeftOvers: []leftOverJSON{},
		Fencing: node.Fencing, FrozenJobs: node.FrozenJobs,
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

// partition is a partition as a record of this shape.
func (s jsonShape) partition(p *pb.Partition, nodes []*pb.Node) *partitionRecord {
	names, cpus := partitionNodes(p, nodes)
	state := "UP"
	if !p.Up {
		state = "DOWN"
	}
	return &partitionRecord{
		Name: p.Name, Default: p.IsDefault, State: s.words(state),
		Nodes:    map[string]any{"configured": cmp.Or(p.Nodes, "ALL"), "total": len(names), "names": spec.FormatHostList(names), "cpus": cpus},
		Maximums: map[string]any{"time": s.minutes(p.MaxTimeS)},
		Defaults: map[string]any{"time": s.minutes(p.DefaultTimeS), "memory_per_cpu": s.some(p.DefaultMemoryPerCpuBytes >> 20)},
		Groups:   map[string]any{"allowed": strings.Join(p.AllowGroups, ",")},
		Priority: map[string]any{"tier": p.PriorityTier},
		Gleaner:  map[string]any{"allow_root_jobs": p.AllowRootJobs, "lease_action": p.LeaseAction},
	}
}

// partitionNodes are the names of a partition's nodes, and their CPUs.
func partitionNodes(p *pb.Partition, nodes []*pb.Node) (names []string, cpus uint32) {
	for _, node := range nodes {
		if memberOf(node, p.Name) {
			names = append(names, node.Name)
			cpus += node.GetInventory().GetCpus()
		}
	}
	return names, cpus
}

// lineRecord is a line of the table as sinfo's JSON has it.
type lineRecord struct {
	Partition map[string]any `json:"partition"`
	Node      map[string]any `json:"node"`
	Nodes     map[string]any `json:"nodes"`
	Cpus      map[string]any `json:"cpus"`
	Gres      map[string]any `json:"gres"`
}

func (s jsonShape) line(r *nodeRow) *lineRecord {
	nodes, cpus := r.nodeTally(), r.cpuTally()
	names := make([]string, 0, len(r.nodes))
	for _, node := range r.nodes {
		names = append(names, node.Name)
	}
	state := s.words(strings.ToUpper(longState(r.first())))
	if len(r.nodes) == 0 {
		state = []string{}
	}
	return &lineRecord{
		Partition: map[string]any{"name": r.partition.GetName(), "default": r.partition.GetIsDefault()},
		Node:      map[string]any{"state": state},
		Nodes:     map[string]any{"allocated": nodes.allocated, "idle": nodes.idle, "other": nodes.other, "total": nodes.total, "nodes": names},
		Cpus:      map[string]any{"allocated": cpus.allocated, "idle": cpus.idle, "other": cpus.other, "total": cpus.total},
		Gres:      map[string]any{"total": nodeGres(r.first()), "used": nodeGresUsed(r.first()), "free_and_total": r.gpus()},
	}
}

// writeJSON prints the lines of the default table as "sinfo", and the nodes
// and partitions in full.
func (run *infoRun) writeJSON(partitions []*pb.Partition, nodes []*pb.Node, view *view) error {
	layout, err := nodeTable.ParseShort(infoFormat)
	if err != nil {
		return err
	}
	stream := newJSONStream(run.inv.Stdout, "sinfo", run.json)
	grouped := &infoRun{inv: run.inv, choice: run.choice, layout: layout, less: run.less}
	for _, row := range grouped.rows(partitions, nodes, view) {
		if err := stream.add(run.json.line(row)); err != nil {
			return err
		}
	}
	if err := stream.next("nodes"); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := stream.add(run.json.node(node, view)); err != nil {
			return err
		}
	}
	if err := stream.next("partitions"); err != nil {
		return err
	}
	for _, partition := range partitions {
		if err := stream.add(run.json.partition(partition, nodes)); err != nil {
			return err
		}
	}
	return stream.end(run.inv)
}
