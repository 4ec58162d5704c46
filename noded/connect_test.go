package noded

import (
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSpread: nodes come back over the time that the controller says, and never so late that
// a lease is lost.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		within, lease uint32
		most          time.Duration
	}{{0, 90_000, 1}, {1000, 90_000, time.Second}, {4_000_000_000, 90_000, 15 * time.Second}, {5000, 3000, 1500 * time.Millisecond}} {
		said := &pb.Registered{ReconnectWithinMs: c.within, LeaseMs: c.lease}
		var longest time.Duration
		for range 1000 {
			longest = max(longest, spread(said))
		}
		if longest >= c.most || longest < c.most/2 {
			t.Errorf("%d ms of a lease of %d: up to %v, want almost %v", c.within, c.lease, longest, c.most)
		}
	}
	if d := spread(nil); d != 0 {
		t.Errorf("%v without a registration", d)
	}
}
