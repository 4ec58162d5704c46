package ordered

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// jobAlloc is one of a job's allocations, from its script's start on.
type jobAlloc struct {
	job   uint32
	index int
}

// checkDevices holds when an allocation begins to run: it sees the devices that it was given
// here, each once, and, if it goes on from an image, under the names that it saw
// first.
func (t *truth) checkDevices(s *node.Shim) {
	key := jobAlloc{s.Key.Job, s.Index()}
	if s.Image == nil {
		t.seen[key] = node.DevicesOf(s.Sees)
	}
	if now := node.DevicesOf(s.Sees); !slices.Equal(now, t.seen[key]) {
		t.w.fail("other devices: allocation %s sees %v on %s, and its script began with %v", s.Key, now, s.Node.Name, t.seen[key])
	}
	given := held(s)
	for _, d := range s.Sees {
		if d.ID == "" {
			continue
		}
		if !given[d.ID] {
			t.w.fail("other devices: behind %s of allocation %s on %s is %s, which it was not given or has already", d.As.Path, s.Key, s.Node.Name, d.ID)
		}
		delete(given, d.ID)
	}
	if len(given) > 0 {
		t.w.fail("other devices: allocation %s does not see %v on %s", s.Key, given, s.Node.Name)
	}
}
