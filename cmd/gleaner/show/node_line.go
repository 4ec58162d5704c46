package show

import (
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// lineOld is a line of the table in the old shape.
type lineOld struct {
	Partition map[string]any `json:"partition"`
	Node      map[string]any `json:"node"`
	Nodes     map[string]any `json:"nodes"`
	Cpus      map[string]any `json:"cpus"`
	Gres      map[string]any `json:"gres"`
}

// lineRecord is a line of the table as sinfo's JSON has it (slurmrestd, "sinfo").
type lineRecord struct {
	Port         uint32       `json:"port"`
	Node         lineState    `json:"node"`
	Nodes        lineNodes    `json:"nodes"`
	Cpus         lineCpus     `json:"cpus"`
	Sockets      between      `json:"sockets"`
	Cores        between      `json:"cores"`
	Threads      between      `json:"threads"`
	Disk         between      `json:"disk"` // MiB, as memory is
	Memory       lineMemory   `json:"memory"`
	Weight       between      `json:"weight"`
	Features     lineFeatures `json:"features"`
	Gres         lineGres     `json:"gres"`
	Cluster      string       `json:"cluster"`
	Comment      string       `json:"comment"`
	Extra        string       `json:"extra"`
	Reason       lineReason   `json:"reason"`
	Reservation  string       `json:"reservation"`
	ResourceSpec lineSpec     `json:"resource_spec"`
	Partition    any          `json:"partition"`
}

type lineState struct {
	State []string `json:"state"`
}

type lineNodes struct {
	tally
	Hostnames []string `json:"hostnames"`
	Addresses []string `json:"addresses"`
	Nodes     []string `json:"nodes"`
}

type lineCpus struct {
	tally
	between
	Load    between  `json:"load"`
	PerNode mostOnly `json:"per_node"`
}

type between struct {
	Minimum uint64 `json:"minimum"`
	Maximum uint64 `json:"maximum"`
}

type mostOnly struct {
	Max Optional `json:"max"`
}

type lineMemory struct {
	between
	Free      freeBetween `json:"free"`
	Allocated uint64      `json:"allocated"`
}

type freeBetween struct {
	Minimum Optional `json:"minimum"`
	Maximum Optional `json:"maximum"`
}

type lineFeatures struct {
	Total  string `json:"total"`
	Active string `json:"active"`
}

type lineGres struct {
	Total        string `json:"total"`
	Used         string `json:"used"`
	FreeAndTotal string `json:"free_and_total"` // Gleaner's own
}

type lineReason struct {
	Description string `json:"description"`
	Time        uint64 `json:"time"`
	User        string `json:"user"`
}

type lineSpec struct {
	Cpus   string `json:"cpus"`
	Memory uint64 `json:"memory"`
}

// LineRecordOf is a line of the table as JSON. all are the nodes of the cluster: its
// partition is shown whole.
func LineRecordOf(s JSONShape, r *NodeRow, all []*pb.Node) any {
	if s == JSONOld {
		return lineOldOf(r)
	}
	first := r.first()
	state := []string{} // of a line without nodes
	if len(r.Nodes) > 0 {
		state = nodeStateWords(first)
	}
	inventory := first.GetInventory()
	features := strings.Join(inventory.GetFeatures(), ",")
	memory := r.between(func(n *pb.Node) uint64 { return n.GetInventory().GetMemoryBytes() >> 20 })
	return &lineRecord{
		Node:  lineState{state},
		Nodes: lineNodes{tally: r.nodeTally(), Hostnames: []string{}, Addresses: []string{}, Nodes: r.nodeNames()},
		Cpus: lineCpus{
			tally: r.cpuTally(), between: r.between(func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetCpus()) }),
			Load: r.between(func(n *pb.Node) uint64 { return cpuLoad.value(n.GetLoad()) }), PerNode: mostOnly{Optional{Shape: s, infinite: true}},
		},
		Sockets:  r.between(func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetSockets()) }),
		Cores:    r.between(func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetCoresPerSocket()) }),
		Threads:  r.between(func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetThreadsPerCore()) }),
		Disk:     r.between(func(n *pb.Node) uint64 { return n.GetInventory().GetTmpBytes() >> 20 }),
		Memory:   lineMemory{between: memory, Free: s.freeBetween(r), Allocated: r.allocatedMemory()},
		Weight:   r.between(func(*pb.Node) uint64 { return 1 }),
		Features: lineFeatures{features, features},
		Gres:     lineGres{Total: nodeGres(first), Used: nodeGresUsed(first), FreeAndTotal: r.gpus()},
		Reason:   lineReason{first.GetReason(), uint64(max(first.GetReasonMs(), 0)) / 1000, first.GetReasonUser()},

		Reservation: first.GetReservation(), Partition: s.Partition(r.Partition, all, r.view),
	}
}

func lineOldOf(r *NodeRow) *lineOld {
	nodes, cpus := r.nodeTally(), r.cpuTally()
	state := ""
	if len(r.Nodes) > 0 {
		state = strings.ToUpper(LongState(r.first()))
	}
	return &lineOld{
		Partition: map[string]any{"name": r.Partition.GetName(), "default": r.Partition.GetIsDefault()},
		Node:      map[string]any{"state": state},
		Nodes:     map[string]any{"allocated": nodes.Allocated, "idle": nodes.Idle, "other": nodes.Other, "total": nodes.Total, "nodes": r.nodeNames()},
		Cpus:      map[string]any{"allocated": cpus.Allocated, "idle": cpus.Idle, "other": cpus.Other, "total": cpus.Total},
		Gres:      map[string]any{"total": nodeGres(r.first()), "used": nodeGresUsed(r.first()), "free_and_total": r.gpus()},
	}
}

func (r *NodeRow) nodeNames() []string {
	names := make([]string, 0, len(r.Nodes))
	for _, node := range r.Nodes {
		names = append(names, node.Name)
	}
	return names
}

// between are the least and the most of a row's nodes; 0 without any.
func (r *NodeRow) between(value func(*pb.Node) uint64) between {
	if len(r.Nodes) == 0 {
		return between{}
	}
	b := between{value(r.Nodes[0]), value(r.Nodes[0])}
	for _, node := range r.Nodes {
		b.Minimum, b.Maximum = min(b.Minimum, value(node)), max(b.Maximum, value(node))
	}
	return b
}

// freeBetween is the free memory of those nodes of a row that are connected.
func (s JSONShape) freeBetween(r *NodeRow) freeBetween {
	var known NodeRow
	for _, node := range r.Nodes {
		if node.GetLoad() != nil {
			known.Nodes = append(known.Nodes, node)
		}
	}
	b := known.between(func(n *pb.Node) uint64 { return freeMemory.value(n.GetLoad()) })
	set := len(known.Nodes) > 0
	return freeBetween{Optional{Shape: s, set: set, number: b.Minimum}, Optional{Shape: s, set: set, number: b.Maximum}}
}

func (r *NodeRow) allocatedMemory() (mebibytes uint64) {
	for _, node := range r.Nodes {
		mebibytes += node.AllocatedMemoryBytes >> 20
	}
	return mebibytes
}
