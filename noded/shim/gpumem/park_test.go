package gpumem

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// What does not fit into the job's memory would end the job.
func TestNoMemoryToPark(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes a control group")
	}
	group := cgroup.New(fmt.Sprintf("/gleaner-gpumem-test-%d", os.Getpid()), cgroup.Limits{})
	if err := group.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	const limit = 64 << 20
	g := &Memory{Config: Config{Own: &pb.NodeAllocation{MemoryBytes: limit}, Group: group}}
	if free, err := g.freeMemory(); err != nil || free > limit {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	users := []cuda.Process{{PID: 7, Devices: true}}
	for used, fits := range map[uint64]bool{0: true, 1 << 20: true, 2 * limit: false, 1 << 50: false} {
		err := g.mayPark(cuda.Facts{Driver: "580.65.06", Used: map[int]uint64{7: used}}, users)
		if (err == nil) != fits || err != nil && (Lasts(err) || !strings.Contains(err.Error(), "--mem")) {
			t.Errorf("%d bytes: %v", used, err)
		}
	}
}
