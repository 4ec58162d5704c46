package show

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestLoadOfRow(t *testing.T) {
	node := func(load uint32, mebibytes uint64) *pb.Node {
		return &pb.Node{Load: &pb.HostLoad{LoadHundredths: load, AvailableMemoryBytes: mebibytes << 20}}
	}
	away := &pb.Node{}
	for _, c := range []struct {
		nodes        []*pb.Node
		load, memory string
	}{
		{nil, "N/A", "N/A"},
		{[]*pb.Node{away}, "N/A", "N/A"},
		{[]*pb.Node{node(5, 900)}, "0.05", "900"},
		{[]*pb.Node{node(0, 0), away}, "0.00", "0"},
		{[]*pb.Node{away, node(250, 7), node(1234, 12), node(250, 10)}, "2.50-12.34", "7-12"},
	} {
		row := &NodeRow{Nodes: c.nodes}
		if load, memory := cpuLoad.ofRow(row), freeMemory.ofRow(row); load != c.load || memory != c.memory {
			t.Errorf("%v: load %s, memory %s; want %s, %s", c.nodes, load, memory, c.load, c.memory)
		}
	}
}
