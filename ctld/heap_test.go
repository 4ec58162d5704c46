package ctld

import "testing"

// TestHeapPercent: a small heap grows by a number of bytes, a large one by a
// share of it, and nothing in between is more frugal than that share.
func TestHeapPercent(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{{0, 1000}, {1 << 20, 1000}, {8 << 20, 300}, {24 << 20, 100}, {34 << 20, 70}, {1 << 40, 70}} {
		if got := heapPercent(test.live); got != test.want {
			t.Errorf("%d bytes alive: %d %%, want %d %%", test.live, got, test.want)
		}
	}
}
