package show

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A loadField is a part of what a node's host does, and how sinfo writes it.
type loadField struct {
	value func(*pb.HostLoad) uint64
	text  func(uint64) string
}

var (
	// cpuLoad is the load average of one minute.
	cpuLoad = loadField{
		value: func(load *pb.HostLoad) uint64 { return uint64(load.GetLoadHundredths()) },
		text:  func(load uint64) string { return fmt.Sprintf("%d.%02d", load/100, load%100) },
	}
	// freeMemory is what programs can take before the host swaps, in MiB.
	freeMemory = loadField{
		value: func(load *pb.HostLoad) uint64 { return load.GetAvailableMemoryBytes() >> 20 },
		text:  Digits[uint64],
	}
)

// ofLoad makes a field that is N/A while no node of the row is connected.
func ofLoad(letter byte, header string, field loadField, names ...string) nodeField {
	return ofNodes(letter, header, field.ofRow, names...)
}

// ofRow is the field of all nodes of a row, "least-most" if they differ, as sinfo writes it.
func (f loadField) ofRow(r *NodeRow) string {
	var low, high uint64
	known := false
	for _, node := range r.Nodes {
		if node.GetLoad() == nil {
			continue
		}
		value := f.value(node.GetLoad())
		if !known {
			low, high, known = value, value, true
		}
		low, high = min(low, value), max(high, value)
	}
	switch {
	case !known:
		return "N/A"
	case low != high:
		return f.text(low) + "-" + f.text(high)
	}
	return f.text(low)
}

// loadText is the field of one node.
func loadText(node *pb.Node, field loadField) string {
	return field.ofRow(&NodeRow{Nodes: []*pb.Node{node}})
}

// freeMemory is the field of one node in JSON, unset while it is not connected.
func (s JSONShape) freeMemory(node *pb.Node) Optional {
	return Optional{Shape: s, set: node.GetLoad() != nil, number: freeMemory.value(node.GetLoad())}
}
