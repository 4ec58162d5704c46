package state

import (
	"testing"
)

// TestGangNetworkOf: each allocation has an address that is neither the first nor the last
// of its job's network, and jobs that follow each other have different ones.
func TestGangNetworkOf(t *testing.T) {
	for nodes, bits := range map[int]int{2: 30, 3: 29, 6: 29, 7: 28, 254: 24, 255: 23} {
		seen := map[string]uint32{}
		for id := uint32(1); id <= 64; id++ {
			job := &Job{ID: id, Run: &Run{Allocs: make([]Alloc, nodes)}}
			network := job.network()
			if network.Bits() != bits || network != network.Masked() || !gangNetworks.Overlaps(network) {
				t.Fatalf("job %d on %d nodes has %s", id, nodes, network)
			}
			if other := seen[network.String()]; other != 0 {
				t.Fatalf("jobs %d and %d both have %s", other, id, network)
			}
			seen[network.String()] = id
		}
	}
	if network := (&Job{ID: 1<<32 - 1, Run: &Run{Allocs: make([]Alloc, 1<<18)}}).network(); network != gangNetworks {
		t.Errorf("%s", network)
	}
}
