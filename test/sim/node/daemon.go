package node

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Daemon is gnoded: a model of the process around package registry, which decides.
type Daemon struct {
	Node *Node
	Host Host

	registry registry.Registry
	allocs   map[registry.Key]*alloc // what carries it out, of each of its allocations
	session                          // the present one
	keep     *registry.Keep          // not done yet; nil = none

	owner     *owner.Owner  // what the node's owner says there
	writtenBy time.Duration // when the ledger that was given to the disk last is on it
	looking   bool          // for triggers
}

// Host is what a daemon has around it: its process and its connection.
type Host interface {
	// After plans something that the daemon does, if it has not ended by then.
	After(delay time.Duration, do func())
	// Send sends a message in the present session; without one it is dropped.
	Send(message *pb.NodeMessage)
	// HangUp ends the present session.
	HangUp(why string)
	// Connected says whether tunnels lead to the node now.
	Connected() bool
}

// alloc is what the daemon has of an allocation.
type alloc struct {
	*registry.Alloc
	shim     *Shim         // nil until it was launched
	calledBy time.Duration // when what the supervisor was told last reaches it
}

// resendEvery is as in noded.
const resendEvery = 10 * time.Second

// Bounds of what it holds and remembers, as in noded.
const (
	mostAllocs = 4096
	remembers  = 1024
)

// Begin starts the daemon, which adopts what is on the disk. starts is how often it was
// started.
func (d *Daemon) Begin(starts int) {
	d.instance = fmt.Sprintf("%s-%d", d.Node.Name, starts)
	d.allocs = map[registry.Key]*alloc{}
	d.registry = registry.Registry{Most: mostAllocs, Remembers: remembers}
	if d.Node.Broken.NoMemory {
		d.registry.Remembers = 0
	}
	d.keep = nil
	d.adoptOwned()
	for _, s := range d.Node.ShimsInOrder() {
		p := d.add(d.registry.Adopt(s.Order, d.time()))
		p.shim = s
		if s.Result != nil || !s.Alive {
			d.shimEnded(s)
			continue
		}
		s.told = supervise.Told{}
		s.tell()
	}
	d.say()
	d.tickLater()
	d.lookForTriggers()
	d.resendLater()
}

func (d *Daemon) resendLater() {
	d.Host.After(resendEvery, func() {
		for _, m := range d.registry.Unacknowledged() {
			d.Host.Send(m)
		}
		d.resendLater()
	})
}

// time is what time it is here.
func (d *Daemon) time() registry.Time { return registry.Time{Boot: d.Node.Boottime()} }

func (d *Daemon) add(decided *registry.Alloc) *alloc {
	p := &alloc{Alloc: decided}
	d.allocs[decided.Key] = p
	return p
}

// obey carries out a message about the life of an allocation.
func (d *Daemon) obey(message *pb.ControllerMessage) {
	do, known := d.registry.Obey(message, d.time())
	if !known {
		d.Node.World.Fail("%s does not understand %v", d.Node.Name, message)
	}
	d.carryOut(do)
	if do.New != nil {
		p := d.add(do.New)
		d.Node.trace("allocation %s is ordered", p.Key)
		d.Host.After(d.Node.between(time.Millisecond, 200*time.Millisecond), func() { d.launch(p) })
	}
	if do.Renew {
		d.Host.Send(d.registry.Renewal(d.time(), nil))
	}
}

// carryOut sends and passes on what was decided, and deletes what it may.
func (d *Daemon) carryOut(do registry.Do) {
	if do.Mistake != nil {
		d.Node.World.Fail("%s: %v", d.Node.Name, do.Mistake)
	}
	for _, m := range do.Send {
		d.Host.Send(m)
	}
	for _, pass := range do.Pass {
		p := d.allocs[pass.Alloc.Key]
		if pass.Hold != nil {
			d.passHold(p, pass.Hold)
			continue
		}
		d.call(p, func(s *Shim) { s.obey(pass.Order) })
	}
	if do.Done != nil {
		p := d.allocs[do.Done.Key]
		if d.Node.Broken.NoMemory {
			d.forget(p)
			return
		}
		d.Host.After(d.Node.between(time.Millisecond, 200*time.Millisecond), func() { d.forget(p) })
	}
}

// call has an order reach the supervisor of an allocation, after those before it.
func (d *Daemon) call(p *alloc, do func(s *Shim)) {
	p.calledBy = max(p.calledBy, d.Node.World.Now()+d.Node.between(0, 5*time.Millisecond))
	d.deliver(p, do)
}

func (d *Daemon) deliver(p *alloc, do func(s *Shim)) {
	now := d.Node.World.Now()
	d.Host.After(p.calledBy-now, func() {
		switch {
		case p.Life.Over():
		case p.shim == nil: // it is being launched
			p.calledBy = max(p.calledBy, d.Node.World.Now()+50*time.Millisecond)
			d.deliver(p, do)
		case p.shim.Alive:
			do(p.shim)
		}
	})
}

// launch starts the supervisor, once nothing is left of earlier runs here.
func (d *Daemon) launch(p *alloc) {
	earlier, do := d.registry.Earlier(p.Alloc)
	d.carryOut(do)
	switch {
	case earlier != nil:
		d.Host.After(100*time.Millisecond, func() { d.launch(p) })
	case p.EndOrder != nil:
		d.over(p, p.NeverStarted(d.time()))
	case d.Node.Full:
		d.over(p, &pb.AllocEnded{Alloc: p.Key.Message(), Cause: pb.EndCause_END_CAUSE_NODE_FULL})
	default:
		p.shim = d.Node.launch(p.Order, p.Lease.Begun)
		if latest := d.registry.Latest(p.Alloc); latest != nil {
			p.shim.renew(latest)
		}
	}
}

// told is when something that a supervisor says is heard, after what it said
// before. It says everything again to each new daemon.
func (d *Daemon) told(s *Shim, event *pb.ShimEvent) {
	now := d.Node.World.Now()
	s.saidBy = max(s.saidBy, now+d.Node.between(0, 5*time.Millisecond))
	d.Host.After(s.saidBy-now, func() {
		p := d.allocs[s.Key]
		if p == nil || p.shim != s || p.Life.Over() {
			return
		}
		d.carryOut(d.registry.Hear(p.Alloc, event))
		if event.GetHold() != nil {
			d.heardHold(event.GetHold())
		}
		if event.GetSaved() != nil {
			d.sendHeldSoon()
		}
	})
}

// shimEnded: the supervisor has written its result, or died.
func (d *Daemon) shimEnded(s *Shim) {
	d.Host.After(d.Node.between(0, 500*time.Millisecond), func() {
		p := d.allocs[s.Key]
		if p == nil || p.shim != s || p.Life.Over() {
			return
		}
		d.over(p, s.recover())
	})
}

// over: nothing of the allocation is left but its result. After that it is not frozen.
func (d *Daemon) over(p *alloc, result *pb.AllocEnded) {
	var last *pb.AllocSaved
	if p.shim != nil && p.shim.Core.Last != nil {
		last = proto.CloneOf(p.shim.Core.Last)
		last.Frozen = false
	}
	do := d.registry.Over(p.Alloc, result, last, d.time())
	d.Node.trace("allocation %s has ended: %s, exit code %d", p.Key, result.GetCause().String()[len("END_CAUSE_"):], result.GetExitCode())
	d.carryOut(do)
	if last != nil {
		d.sendHeldSoon()
	}
}

// forget is when the directory is deleted.
func (d *Daemon) forget(p *alloc) {
	d.registry.Forget(p.Alloc, d.time())
	delete(d.allocs, p.Key)
	delete(d.Node.Shims, p.Key)
}
