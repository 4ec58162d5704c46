package ordered

import (
	"fmt"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// machine is one compute node: its kernel, its disk, its gnoded, and the shims
// of the parts it runs, which outlive the daemon.
type machine struct {
	w       *World
	name    string
	place   place
	on      bool
	boots   int           // how often it was switched on
	booted  time.Duration // when, last
	rate    float64       // of CLOCK_BOOTTIME against true time
	full    bool          // its disk
	fencing bool          // the administrator is declaring it dead
	daemon  daemon
	shims   map[partKey]*shim
	cpus    uint32
	gpus    uint32

	features []string
	model    string            // of its GPUs
	kernel   int               // images of one are not restored on another
	criu     bool              // it can save and restore jobs
	reaches  bool              // the shared store
	images   map[string]*image // in its own store, which outlives all but a loss of it
}

// partKey names a part on its node.
type partKey struct{ job, epoch uint32 }

func keyOf(id *pb.PartId) partKey { return partKey{id.GetJob(), id.GetEpoch()} }

func (k partKey) id() *pb.PartId { return &pb.PartId{Job: k.job, Epoch: k.epoch} }
func (k partKey) String() string { return fmt.Sprintf("%d.%d", k.job, k.epoch) }

// boottime is CLOCK_BOOTTIME.
func (m *machine) boottime() time.Duration {
	return time.Duration(float64(m.w.now-m.booted) * m.rate)
}

// inTrue converts a span of CLOCK_BOOTTIME to true time, rounded up.
func (m *machine) inTrue(span time.Duration) time.Duration {
	return time.Duration(float64(span)/m.rate) + 1
}

func (m *machine) switchOn() {
	if m.on {
		return
	}
	m.on, m.booted = true, m.w.now
	m.boots++
	m.w.trace(m.name, "is switched on, boot %d", m.boots)
	m.daemon.begin()
}

// switchOff is a loss of power: everything that ran is over, the disk stays.
func (m *machine) switchOff() {
	if !m.on {
		return
	}
	m.w.trace(m.name, "loses its power")
	m.on = false
	m.daemon.vanish()
	for _, s := range m.shimsInOrder() {
		s.die()
	}
}

func (m *machine) inventory() *pb.Inventory {
	inventory := &pb.Inventory{
		Cpus: m.cpus, RealCpus: m.cpus, MemoryBytes: 64 << 30, RealMemoryBytes: 64 << 30,
		BootId: fmt.Sprintf("boot-%d", m.boots), HostName: m.name, Features: m.features,
	}
	for i := range m.gpus {
		inventory.Devices = append(inventory.Devices, &pb.Device{
			Id: fmt.Sprintf("%s-gpu%d", m.name, i), Index: i, Model: m.model, Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1,
		})
	}
	inventory.Saving = &pb.Saving{Criu: "4.2", Kernel: fmt.Sprint(m.kernel)}
	if m.reaches {
		inventory.Saving.Stores = []string{scratch}
	}
	if !m.criu {
		inventory.Saving = &pb.Saving{WhyNot: "it has no CRIU"}
	}
	if m.full {
		inventory.Trouble = "its disk is full"
	}
	return inventory
}
