package noded

import (
	"math"
	"testing"
)

func TestHostLoad(t *testing.T) {
	load := hostLoad()
	if load == nil || load.AvailableMemoryBytes == 0 {
		t.Fatalf("the load of this host is %v", load)
	}
	for from, want := range map[uint64]uint32{0: 0, 65536: 100, 98304: 150, 655: 0, 656: 1, math.MaxUint32: 6553599} {
		if got := hundredths(from); got != want {
			t.Errorf("%d of 65536ths are %d hundredths, want %d", from, got, want)
		}
	}
}
