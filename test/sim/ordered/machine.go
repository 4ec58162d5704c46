package ordered

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// machine is one compute node in its place, with the process and the connection of its
// daemon.
type machine struct {
	*node.Node
	place   place
	fencing bool // the administrator is declaring it dead
	daemon  daemon
}

func (w *World) addMachine(n *node.Node) {
	m := &machine{Node: n, place: place(1 + len(w.controllers) + n.Number)}
	m.daemon = daemon{process: process{w: w}, m: m}
	n.Daemon.Node, n.Daemon.Host = n, &m.daemon
	w.machines = append(w.machines, m)
}

func (m *machine) switchOn() {
	if m.On {
		return
	}
	m.SwitchOn()
	m.daemon.begin()
}

// switchOff is a loss of power.
func (m *machine) switchOff() {
	if !m.On {
		return
	}
	m.daemon.vanish()
	m.SwitchOff()
}

// What follows implements node.World. Script and ExitCode are with the users.

// Now is true time.
func (w *World) Now() time.Duration { return w.now }

// After plans something.
func (w *World) After(delay time.Duration, do func()) { w.after(delay, do) }

// Rand is the day's chance.
func (w *World) Rand() *rand.Rand { return w.rng }

// Nodes are all that there are.
func (w *World) Nodes() []*node.Node {
	all := make([]*node.Node, len(w.machines))
	for i, m := range w.machines {
		all[i] = m.Node
	}
	return all
}

// Trace tells what happens.
func (w *World) Trace(who, format string, arguments ...any) { w.trace(who, format, arguments...) }

// Fail notes what must not be.
func (w *World) Fail(format string, arguments ...any) { w.fail(format, arguments...) }

// Happens has what happens to an allocation checked and counted.
func (w *World) Happens(what node.What, s *node.Shim) {
	switch what {
	case node.Launched:
		w.truth.take(s)
	case node.Runs:
		w.truth.runs(s)
	case node.Rests:
		w.truth.noteFrozen(s)
	case node.Restored:
		w.truth.there(s)
	case node.ScriptRuns:
		w.truth.script(s)
	case node.Suspended:
		w.Suspended++
	case node.Parked:
		w.Parked++
		w.truth.give(s)
	case node.Unparked:
		w.truth.takeDevices(s)
	case node.LeaseEnded:
		w.Frozen++
	case node.SaveBegins:
		w.ambush(s, inSave)
	case node.Saved:
		w.Saves++
	case node.NotSaved:
		w.SavesFailed++
	case node.RestoreBegins:
		w.ambush(s, inRestore)
	case node.RestoreFailed:
		w.RestoresFailed++
		w.truth.excuse(s.Key.Job, "a restore failed")
	case node.Ended:
		w.truth.ended(s)
	}
}

// ImageMade notes an image.
func (w *World) ImageMade(i *node.Image) { w.truth.images[i.Digest] = i }

// ImageDeleted checks that nobody needs an image.
func (w *World) ImageDeleted(i *node.Image) { w.truth.deleted(i) }

// CopyDeleted checks that nobody counts on a copy.
func (w *World) CopyDeleted(n *node.Node, i *node.Image) {
	job := w.truth.workOf(i.Key.Job).record
	if job == nil {
		return
	}
	for k := range job.Images() {
		for _, alloc := range job.Images()[k].Allocs {
			if string(alloc.Digest[:]) == i.Digest && slices.Contains(alloc.Copies, n.Name) {
				w.fail("copy deleted: the copy of %s on %s is deleted, and its job counts on it", i, n.Name)
			}
		}
	}
}
