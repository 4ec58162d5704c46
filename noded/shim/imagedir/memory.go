package imagedir

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// spareShare: one part in so many of the node's memory stays free, for what other jobs
// need meanwhile.
const spareShare = 8

// EnoughMemory answers why an image of so many bytes must not be in memory, or nil.
func EnoughMemory(bytes uint64) error {
	available, err := memory.Available()
	if err != nil {
		return err
	}
	total, err := memory.Total()
	if err != nil {
		return err
	}
	room, err := cgroup.Room()
	if err != nil {
		return err
	}
	return nodeMemory{available: available, total: total, room: room}.holds(bytes)
}

// nodeMemory is how much a node has of it, in bytes.
type nodeMemory struct {
	available uint64
	total     uint64
	room      uint64 // below the limits of the supervisor's own control group
}

// holds counts an image twice in the node's memory: the restored job needs as much again
// while the image is still there. It counts it once in the supervisor's control group.
func (m nodeMemory) holds(bytes uint64) error {
	if needed := 2*bytes + m.total/spareShare; needed > m.available {
		return fmt.Errorf("%s of memory are available, and %s are needed", spec.FormatSize(m.available), spec.FormatSize(needed))
	}
	if needed := bytes + bytes/spareShare + 256<<20; needed > m.room {
		return fmt.Errorf("%s of memory are left below the limits of the daemon's control group, and %s are needed", spec.FormatSize(m.room), spec.FormatSize(needed))
	}
	return nil
}
