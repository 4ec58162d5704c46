package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NodeRow is one line of ginfo: nodes of one partition that look the same in
// all the columns that tell nodes apart. nodes may be empty: a partition of
// which nothing matches.
type NodeRow struct {
	Partition *pb.Partition // nil: the nodes' partitions do not matter to the line
	Nodes     []*pb.Node    // by name
	view      *View
}

// first is the node that speaks for the row in columns in which all are alike.
func (r *NodeRow) first() *pb.Node {
	if len(r.Nodes) == 0 {
		return &pb.Node{}
	}
	return r.Nodes[0]
}

// like gives a field of the row that all its nodes share; "n/a" without nodes.
func like(value func(*pb.Node) string) func(*NodeRow) string {
	return func(r *NodeRow) string {
		if len(r.Nodes) == 0 {
			return "n/a"
		}
		return value(r.Nodes[0])
	}
}

// least writes the smallest number of the row's nodes, with a + if others
// have more, as sinfo does.
func least(value func(*pb.Node) uint64) func(*NodeRow) string {
	return func(r *NodeRow) string {
		if len(r.Nodes) == 0 {
			return "0"
		}
		low, high := value(r.Nodes[0]), value(r.Nodes[0])
		for _, node := range r.Nodes {
			low, high = min(low, value(node)), max(high, value(node))
		}
		if low != high {
			return Digits(low) + "+"
		}
		return Digits(low)
	}
}

// names is the row's host list.
func (r *NodeRow) names(value func(*pb.Node) string) string {
	names := make([]string, 0, len(r.Nodes))
	for _, node := range r.Nodes {
		if name := value(node); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return spec.FormatHostList(names)
}

// tally is allocated, idle, other and total, of nodes or of CPUs.
type tally struct {
	Allocated uint64 `json:"allocated"`
	Idle      uint64 `json:"idle"`
	Other     uint64 `json:"other"`
	Total     uint64 `json:"total"`
}

func (t tally) String() string {
	return fmt.Sprintf("%d/%d/%d/%d", t.Allocated, t.Idle, t.Other, t.Total)
}

func (r *NodeRow) nodeTally() tally {
	var t tally
	for _, node := range r.Nodes {
		t.Total++
		switch {
		case !usable(node):
			t.Other++
		case busy(node):
			t.Allocated++
		default:
			t.Idle++
		}
	}
	return t
}

func (r *NodeRow) cpuTally() tally {
	var t tally
	for _, node := range r.Nodes {
		total := uint64(node.GetInventory().GetCpus())
		allocated := min(uint64(node.AllocatedCpus), total)
		t.Total += total
		t.Allocated += allocated
		if usable(node) {
			t.Idle += total - allocated
		} else {
			t.Other += total - allocated
		}
	}
	return t
}

// gpus is free and all GPUs of the row.
func (r *NodeRow) gpus() string { return freeGPUs(r.Nodes...) }

// The fields that tell lines apart: nodes, or partitions, that differ in one of
// those shown get separate lines. The exact ones only do with --exact;
// otherwise their smallest value is shown with a +. (sinfo(1))
var (
	apart = []string{
		"Partition", "PartitionName", "Available", "Time", "DefaultTime", "PriorityTier", "Groups",
		"StateCompact", "StateLong", "StateComplete", "Features", "features_act", "Gres", "GresUsed", "Reason",
		"TimeStamp", "User", "UserLong", "Version", "NodeAddr", "NodeHost", "SocketCoreThread",
	}
	apartIfExact = []string{"CPUs", "Memory", "AllocMem", "Sockets", "Cores", "Threads", "RealCPUs"}
)

// grouping gathers nodes into lines.
type grouping struct {
	fields []format.Field[*NodeRow] // what tells lines apart
	single bool                     // each node of each partition on its own line
	Rows   []*NodeRow               // in the order of partitions and nodes
	byKey  map[string]*NodeRow
}

// NewGrouping gathers nodes into lines by the columns of a layout.
func NewGrouping(layout *format.Layout[*NodeRow], exact, single bool) *grouping {
	g := &grouping{single: single, byKey: map[string]*NodeRow{}}
	names := apart
	if exact {
		names = slices.Concat(apart, apartIfExact)
	}
	for _, name := range names {
		if field, known := NodeTable.Field(name); known && layout.Has(name) {
			g.fields = append(g.fields, field)
		}
	}
	return g
}

// Add puts a node of a partition on its line. A node in several partitions
// counts once on a line that shows none of them.
func (g *grouping) Add(partition *pb.Partition, node *pb.Node, view *View) {
	alone := &NodeRow{Partition: partition, view: view}
	if node != nil {
		alone.Nodes = []*pb.Node{node}
	}
	if g.single {
		g.Rows = append(g.Rows, alone)
		return
	}
	var key strings.Builder
	for _, field := range g.fields {
		key.WriteString(field.Text(alone))
		key.WriteByte(0)
	}
	row, found := g.byKey[key.String()]
	if !found {
		g.byKey[key.String()] = alone
		g.Rows = append(g.Rows, alone)
		return
	}
	if node != nil && (len(node.Partitions) < 2 || !slices.Contains(row.Nodes, node)) {
		row.Nodes = append(row.Nodes, node)
	}
}
