package ordered

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Fault is one thing that goes wrong, and is mended after a while. What it
// hits is chosen from the numbers a and b when it happens, so that leaving
// out other faults does not make it another one.
type Fault struct {
	Number int
	At     time.Duration
	For    time.Duration
	Kind   string
	A, B   int
}

// kinds of fault, each with how often it is chosen.
var kinds = []struct {
	name   string
	weight int
	begin  func(w *World, f Fault) (end func())
}{
	{"controller crashes", 3, func(w *World, f Fault) func() { return w.crashController(w.controllers[f.A%len(w.controllers)]) }},
	{"leader crashes", 3, func(w *World, f Fault) func() { return w.crashController(w.log.leader) }},
	{"controller is stopped", 2, func(w *World, f Fault) func() { return w.stopProcess(w.controllers[f.A%len(w.controllers)]) }},
	{"leader is stopped", 4, func(w *World, f Fault) func() { return w.stopProcess(w.log.leader) }},
	{"leader crashes at a commit", 8, func(w *World, f Fault) func() { return w.await(f, false) }},
	{"leader is stopped at a commit", 5, func(w *World, f Fault) func() { return w.await(f, true) }},
	{"lead is handed over", 2, (*World).handOver},
	{"follower lags", 2, (*World).lagFollower},
	{"controller's disk is slow", 2, (*World).slowController},
	{"wall clock jumps", 2, (*World).jumpClock},
	{"controller writes a snapshot", 1, (*World).saveController},
	{"gnoded crashes", 5, (*World).crashDaemon},
	{"gnoded is stopped", 4, (*World).stopDaemon},
	{"shim crashes", 4, (*World).crashShim},
	{"node loses its power", 4, (*World).powerOff},
	{"node loses its power and is fenced", 2, (*World).powerOffAndFence},
	{"node's disk is full", 2, (*World).fillNode},
	{"node is drained", 2, (*World).drainNode},
	{"partition between two", 5, func(w *World, f Fault) func() { return w.part(f, true) }},
	{"partition one way", 5, func(w *World, f Fault) func() { return w.part(f, false) }},
	{"one is cut off from all", 5, (*World).isolate},
	{"network is slow", 2, (*World).slowNetwork},
	{"shim crashes in a save", 5, func(w *World, f Fault) func() { return w.lieInWait(f, inSave, false) }},
	{"shim crashes in a restore", 3, func(w *World, f Fault) func() { return w.lieInWait(f, inRestore, false) }},
	{"node loses its power in a save", 3, func(w *World, f Fault) func() { return w.lieInWait(f, inSave, true) }},
	{"node loses its power in a restore", 2, func(w *World, f Fault) func() { return w.lieInWait(f, inRestore, true) }},
	{"images are lost", 3, (*World).loseImages},
	{"an image is damaged", 3, (*World).damageImage},
	// Planned beside the others: see planHunts.
	{"node of a newest image is lost", 0, (*World).loseNewest},
	// See planReclaims.
	{"owner reclaims a node", 0, (*World).reclaim},
	// See planOwners.
	{"owner reclaims on the node", 0, (*World).localReclaim},
	{"owner is seen on the node", 0, (*World).seeOwner},
	{"all controllers are away", 0, (*World).allAway},
	{"node's clock is set", 0, (*World).setNodeClock},
	// See planDepartures.
	{"node departs", 0, (*World).depart},
}

// Kinds are the names of all kinds of fault.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].name
	}
	return names
}

// planFaults makes up what goes wrong from one moment to another.
func planFaults(rng *rand.Rand, n int, from, until time.Duration) []Fault {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	faults := make([]Fault, n)
	for i := range faults {
		at := rng.IntN(total)
		kind := 0
		for at >= kinds[kind].weight {
			at -= kinds[kind].weight
			kind++
		}
		// From a second to twenty minutes, short ones as likely as long ones.
		length := time.Duration(float64(time.Second) * math.Exp(rng.Float64()*math.Log(1200)))
		faults[i] = Fault{At: between(rng, from, until), For: length, Kind: kinds[kind].name, A: rng.IntN(1 << 20), B: rng.IntN(1 << 20)}
	}
	// Some come close together: what is hard is hard in company.
	for i := 1; i < n; i++ {
		if rng.IntN(3) == 0 {
			faults[i].At = min(until, faults[i-1].At+between(rng, 0, faults[i-1].For))
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range faults {
		faults[i].Number = i
	}
	return faults
}

// inject plans the faults, and that each is mended before the end.
func (w *World) inject(faults []Fault, until time.Duration) {
	for _, f := range faults {
		w.after(f.At-w.now, func() {
			for _, k := range kinds {
				if k.name != f.Kind {
					continue
				}
				w.trace("fault", "%d: %s for %v", f.Number, f.Kind, f.For.Round(time.Millisecond))
				w.Faults[f.Kind]++
				if end := k.begin(w, f); end != nil {
					w.after(min(f.For, until-w.now), func() {
						w.trace("fault", "%d is mended", f.Number)
						end()
						w.log.look()
					})
				}
				w.log.look()
			}
		})
	}
}

func (w *World) crashController(c *controller) func() {
	if c == nil || !c.up {
		return nil
	}
	w.trace(c.name, "crashes")
	c.fall()
	return func() {
		if !c.up {
			w.trace(c.name, "is started")
			c.boot()
		}
	}
}

// fall is a crash: connections break, and who waits for an answer learns
// nothing.
func (c *controller) fall() {
	for _, l := range linksInOrder(c.links) {
		l.closed = true
		l.conn.up.closed = true
	}
	clear(c.links)
	c.crash()
	c.believes, c.leading = false, false
	if c.w.log.leader == c {
		c.w.log.leader = nil
	}
	for _, m := range c.w.machines {
		if conn := m.daemon.conn; m.daemon.up && conn != nil && slices.Contains(conn.hops, c.place) {
			link := m.daemon.link
			conn.down.send(func() { m.daemon.lost(conn, "the controller is gone") })
			c.w.after(between(c.w.rng, 0, 30*time.Second), link.hangUp)
		}
	}
}

type stoppable interface {
	stop()
	resume()
}

func (w *World) stopProcess(p stoppable) func() {
	if c, is := p.(*controller); is && c == nil {
		return nil
	}
	p.stop()
	return func() { p.resume(); w.log.spreadSoon() }
}

func (w *World) handOver(f Fault) func() {
	w.log.transfer(w.controllers[f.A%len(w.controllers)])
	return nil
}

func (w *World) lagFollower(f Fault) func() {
	c := w.controllers[f.A%len(w.controllers)]
	c.lag = f.For / 4
	return func() { c.lag = 0 }
}

func (w *World) slowController(f Fault) func() {
	c := w.controllers[f.A%len(w.controllers)]
	c.slowDisk = 4 * time.Second
	return func() { c.slowDisk = 0 }
}

// jumpClock sets a wall clock off by up to six hours either way.
func (w *World) jumpClock(f Fault) func() {
	c := w.controllers[f.A%len(w.controllers)]
	c.wallOff = time.Duration(f.B%(12*3600)-6*3600) * time.Second
	return func() { c.wallOff = 0 }
}

func (w *World) saveController(f Fault) func() {
	if c := w.controllers[f.A%len(w.controllers)]; c.up {
		c.save()
	}
	return nil
}

// machineNamed is the machine of a node.
func (w *World) machineNamed(name string) *machine {
	return w.machines[slices.IndexFunc(w.machines, func(m *machine) bool { return m.Name == name })]
}

func (w *World) machine(f Fault) *machine { return w.machines[f.A%len(w.machines)] }

func (w *World) crashDaemon(f Fault) func() {
	m := w.machine(f)
	m.daemon.fall()
	return m.daemon.begin
}

func (w *World) stopDaemon(f Fault) func() { return w.stopProcess(&w.machine(f).daemon) }

func (w *World) crashShim(f Fault) func() {
	m := w.machine(f)
	if shims := m.ShimsInOrder(); len(shims) > 0 {
		s := shims[f.B%len(shims)]
		w.trace(m.Name, "the supervisor of allocation %s is killed", s.Key)
		s.Die()
	}
	return nil
}

func (w *World) powerOff(f Fault) func() {
	m := w.machine(f)
	m.switchOff()
	return m.switchOn
}

// powerOffAndFence has the administrator say that the machine is dead, while
// it is and stays so.
func (w *World) powerOffAndFence(f Fault) func() {
	m := w.machine(f)
	m.switchOff()
	boots := m.Boots
	tell := true
	var try func()
	try = func() {
		if m.On || m.Boots != boots || !tell || m.fencing {
			return
		}
		m.fencing = true
		w.updateNode(m, state.FenceNode, func() { m.fencing = false })
		w.after(time.Minute, try)
	}
	w.after(2*w.lease, try)
	return func() {
		tell = false
		// A request may be under way still: the machine stays off until it
		// can not come any more.
		var on func()
		on = func() {
			if m.fencing {
				w.after(time.Second, on)
				return
			}
			m.switchOn()
			w.after(time.Minute, func() { w.updateNode(m, state.ResumeNode, nil) })
		}
		on()
	}
}

func (w *World) fillNode(f Fault) func() {
	m := w.machine(f)
	set := func(full bool) {
		m.Full = full
		if m.daemon.runs() && m.daemon.conn != nil {
			m.daemon.HangUp("what the node offers has changed")
		}
	}
	set(true)
	return func() { set(false) }
}

func (w *World) drainNode(f Fault) func() {
	m := w.machine(f)
	w.updateNode(m, state.DrainNode, nil)
	return func() { w.updateNode(m, state.ResumeNode, nil) }
}
