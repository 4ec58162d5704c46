package imagedir

import "testing"

// TestWhatMemoryHolds: an image is in memory only where that leaves enough for the
// job itself and for others.
func TestWhatMemoryHolds(t *testing.T) {
	const gib = 1 << 30
	for _, row := range []struct {
		nodeMemory
		bytes uint64
		fits  bool
	}{
		{nodeMemory{available: 60 * gib, total: 64 * gib, room: 1 << 60}, 26 * gib, true},
		{nodeMemory{available: 60 * gib, total: 64 * gib, room: 1 << 60}, 27 * gib, false}, // 8 stay free
		{nodeMemory{available: 8 * gib, total: 64 * gib, room: 1 << 60}, 1, false},
		{nodeMemory{available: 60 * gib, total: 64 * gib, room: gib}, gib, false}, // systemd limits the daemon
		{nodeMemory{available: 60 * gib, total: 64 * gib, room: 2 * gib}, gib, true},
		{nodeMemory{available: 60 * gib, total: 64 * gib, room: 0}, 0, false},
	} {
		if err := row.nodeMemory.holds(row.bytes); (err == nil) != row.fits {
			t.Errorf("%+v with %d bytes: %v", row.nodeMemory, row.bytes, err)
		}
	}
}
