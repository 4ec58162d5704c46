package prepare

import (
	"fmt"
	"slices"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestHostsBetween: names lead to the addresses of the job's parts, whatever nodes those
// are on now. After a move n1 is the name of what was on n1, and another part is on n1.
func TestHostsBetween(t *testing.T) {
	job := &Job{Index: 1, Order: &pb.StartAlloc{
		Network: "198.18.4.0/29", Network6: "fd00::4:0:0/96", Node: "n3", KnownAs: []string{"n1", "n2"},
		Allocation: []*pb.NodeAllocation{{Node: "n2"}, {Node: "n3"}}, NodeAddresses: []string{"10.0.0.2", "10.0.0.3"},
		Spec: &pb.JobSpec{Network: pb.Network_NETWORK_PRIVATE},
	}}
	var lines []string
	for _, h := range job.hosts() {
		lines = append(lines, fmt.Sprintf("%s %s %s %v", h.Name, h.Address, h.Address6, h.First))
	}
	want := []string{
		"n1 198.18.4.1 fd00::4:0:1 true", "n2 198.18.4.2 fd00::4:0:2 true",
		"n2 198.18.4.1 fd00::4:0:1 false", "n3 198.18.4.2 fd00::4:0:2 false",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	if address := job.stepAddress(); address != "198.18.4.2:6818" {
		t.Error(address)
	}
	job.Order.Network = ""
	if address := job.stepAddress(); address != "" {
		t.Error(address)
	}
}
