// Package node is a simulated compute node. noded/registry and noded/supervise decide, as
// on a real node; the rest is a model: how long things take, how they fail, what is on the
// disk, and what really runs.
//
// Contract: there is no clock, no chance and no goroutine in here. The World says what
// time it is, plans events, draws, and is told what really happens, whatever the daemon or
// a supervisor believes. A node is not safe for use by several goroutines at once.
package node

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// World is where nodes are.
type World interface {
	Now() time.Duration // true time
	After(delay time.Duration, do func())
	Rand() *rand.Rand
	Nodes() []*Node // all that there are
	Trace(who, format string, arguments ...any)
	Fail(format string, arguments ...any) // something is that must not be

	// Script says what the script of an order does, ExitCode how that of a run ends.
	Script(order *pb.StartAlloc) Script
	ExitCode(s *Shim) uint32

	Happens(what What, s *Shim)
	ImageMade(i *Image)
	ImageDeleted(i *Image)
	CopyDeleted(n *Node, i *Image)
}

// Script is what a script does.
type Script struct {
	Work  time.Duration // how long it takes, over all runs of its job
	Done  time.Duration // of that, what it has saved by itself
	Later time.Duration // what it leaves to its next run
}

// What happens to an allocation.
type What int

// What that is.
const (
	Launched      What = iota // its supervisor has begun
	Runs                      // its processes run from now on
	Rests                     // they do not, for good or because they are frozen
	Restored                  // one of several is restored, and frozen until all are
	ScriptRuns                // the script of a job on several nodes runs
	Suspended                 // it is frozen by an order
	Parked                    // its devices are the owner's of the node
	Unparked                  // they are its own again
	LeaseEnded                // it is frozen, because its lease is over
	SaveBegins                // an image of it is being made
	Saved                     // it was
	NotSaved                  // it was not
	RestoreBegins             // it is being restored
	RestoreFailed             // it was not
	Ended                     // nothing of it is left but its result
)

// Node is one compute node: its kernel, its disk, its gnoded, and the supervisors of the
// allocations that it runs, which outlive the daemon.
type Node struct {
	World  World
	Broken *Broken
	Name   string
	Number int    // among all nodes, from 0
	Seed   uint64 // of what is drawn once, about its images

	On     bool
	Boots  int           // how often it was switched on
	Booted time.Duration // when, last
	Rate   float64       // of CLOCK_BOOTTIME against true time
	Full   bool          // its disk
	// WallOff is by how much its clock is wrong. Ledger is what its disk has of its owner,
	// and Seen what of the triggers is there.
	WallOff time.Duration
	Ledger  *pb.OwnerLedger
	Seen    map[pb.ReclaimTrigger]bool
	Daemon  Daemon
	Shims   map[registry.Key]*Shim

	CPUs, GPUs uint32
	Features   []string
	Model      string            // of its GPUs
	Kernel     int               // images of one are not restored on another
	CRIU       bool              // it can save and restore jobs
	Images     map[string]*Image // in its own store, which outlives all but a loss of it
	Shared     map[string]*Image // in the store that some nodes share; nil = it does not reach that
	made       int               // images, so far
}

// Boottime is CLOCK_BOOTTIME.
func (n *Node) Boottime() time.Duration {
	return time.Duration(float64(n.World.Now()-n.Booted) * n.Rate)
}

// InTrue converts a span of CLOCK_BOOTTIME to true time, rounded up.
func (n *Node) InTrue(span time.Duration) time.Duration {
	return time.Duration(float64(span)/n.Rate) + 1
}

// between is a duration of that range, by chance.
func (n *Node) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.World.Rand().Int64N(int64(most-least)+1))
}

// SwitchOn starts the kernel.
func (n *Node) SwitchOn() {
	n.On, n.Booted = true, n.World.Now()
	n.Boots++
	n.trace("is switched on, boot %d", n.Boots)
}

// SwitchOff is a loss of power: all that ran is over, the disk stays. The daemon is the
// caller's to end.
func (n *Node) SwitchOff() {
	n.trace("loses its power")
	n.On = false
	for _, s := range n.ShimsInOrder() {
		s.Die()
	}
}

// ShimsInOrder are all allocations that are on its disk.
func (n *Node) ShimsInOrder() []*Shim {
	all := make([]*Shim, 0, len(n.Shims))
	for _, s := range n.Shims {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Shim) int {
		return cmp.Or(cmp.Compare(a.Key.Job, b.Key.Job), cmp.Compare(a.Key.Epoch, b.Key.Epoch))
	})
	return all
}

func (n *Node) trace(format string, arguments ...any) { n.World.Trace(n.Name, format, arguments...) }

func (n *Node) inventory() *pb.Inventory {
	inventory := &pb.Inventory{
		Cpus: n.CPUs, RealCpus: n.CPUs, MemoryBytes: 64 << 30, RealMemoryBytes: 64 << 30,
		BootId: n.bootID(), HostName: n.Name, Features: n.Features,
	}
	for i := range n.GPUs {
		inventory.Devices = append(inventory.Devices, &pb.Device{
			Id: fmt.Sprintf("%s-gpu%d", n.Name, i), Index: i, Model: n.Model, Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1,
		})
	}
	inventory.Saving = &pb.Saving{Criu: "4.2", Kernel: fmt.Sprint(n.Kernel)}
	if n.Shared != nil {
		inventory.Saving.Stores = []string{SharedStore}
	}
	if !n.CRIU {
		inventory.Saving = &pb.Saving{WhyNot: "it has no CRIU"}
	}
	if n.Full {
		inventory.Trouble = "its disk is full"
	}
	return inventory
}

// Broken says what of the models is broken on purpose, to see that the checks notice.
type Broken struct {
	// NoMemory: a node does not remember the allocations whose end is acknowledged, so
	// that an order for one of them starts it again.
	NoMemory bool
	// SavedEarly: a node says that an allocation is saved before its image is durable.
	SavedEarly bool
	// RunsAnyway: an allocation that can not be restored starts with its script.
	RunsAnyway bool
	// NamesItsOwn: an image has the names that its node gives an allocation's devices, and not
	// those under which the allocation sees them.
	NamesItsOwn bool
}
