package node

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has what the node's owner says there, with or without controllers. Package
// owner decides what that means, registry to whom it is passed on, and supervise what a
// supervisor makes of it. As in noded, supervisors are told before the ledger is on the
// disk; controllers are told, and whoever asked is answered, after that.

// began is what all clocks say at the beginning, but for WallOff.
const began = 20454 * 24 * time.Hour // since 1970

// Times of the daemon, as in noded.
const (
	guardEvery    = 100 * time.Millisecond
	triggersEvery = 2 * time.Second
)

// WallMS is CLOCK_REALTIME, which anybody may set.
func (n *Node) WallMS() int64 { return (began + n.World.Now() + n.WallOff).Milliseconds() }

func (n *Node) bootID() string { return fmt.Sprintf("boot-%d", n.Boots) }

func (d *Daemon) ownerTime() owner.Time {
	return owner.Time{Boot: d.Node.Boottime(), WallMS: d.Node.WallMS()}
}

// adoptOwned takes over what is on the disk about the owner.
func (d *Daemon) adoptOwned() {
	d.owner = owner.New(d.Node.Ledger, d.Node.bootID(), d.ownerTime())
	d.writtenBy, d.looking = 0, false
	d.registry.Word = func(order *pb.StartAlloc, _ registry.Time) *pb.HoldAlloc {
		return d.owner.Word(d.owner.Guest(order), d.ownerTime())
	}
}

// changeOwned changes what the owner says, and has it carried out. answer, if there is
// one, is called when the change is on the disk.
func (d *Daemon) changeOwned(change func(o *owner.Owner, now owner.Time) bool, answer func()) {
	if !change(d.owner, d.ownerTime()) {
		return
	}
	d.say()
	d.keepLedger(answer)
	d.tickLater()
	d.lookForTriggers()
}

// say passes on to the supervisors what is new to them.
func (d *Daemon) say() { d.carryOut(d.registry.Said(d.time())) }

// keepLedger brings what the owner says to the disk, one state after the other, and then
// tells the controllers.
func (d *Daemon) keepLedger(answer func()) {
	now := d.Node.World.Now()
	d.writtenBy = max(d.writtenBy, now) + d.Node.between(time.Millisecond, 20*time.Millisecond)
	ledger := d.owner.Ledger()
	d.Host.After(d.writtenBy-now, func() {
		d.Node.Ledger = ledger
		d.tellOwned()
		if answer != nil {
			answer()
		}
	})
}

// tellOwned tells the controller of the present session.
func (d *Daemon) tellOwned() {
	if told := d.toldOwned(); told != nil {
		d.Host.Send(&pb.NodeMessage{What: &pb.NodeMessage_NodeHolds{NodeHolds: told}})
	}
}

// toldOwned is what controllers are told; nil while the disk does not have it.
func (d *Daemon) toldOwned() *pb.NodeHolds {
	if d.owner.Number() != d.Node.Ledger.GetNumber() {
		return nil
	}
	return d.owner.Tell(d.ownerTime())
}

// tickLater ends the holds whose time is over.
func (d *Daemon) tickLater() {
	next := d.owner.Next()
	if next == 0 {
		return
	}
	wait := d.Node.InTrue(max(next-d.Node.Boottime(), 0)) + d.Node.between(0, guardEvery)
	d.Host.After(wait, func() {
		if next == d.owner.Next() {
			d.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Tick(now) }, nil)
		}
	})
}

// passHold tells a supervisor, with the time that is left after that of the way.
func (d *Daemon) passHold(p *alloc, word *pb.HoldAlloc) {
	came := d.Node.Boottime()
	d.call(p, func(s *Shim) {
		s.hold(registry.WaitedHold(word, d.Node.Boottime()-came))
	})
}

// heardHold takes what a supervisor says of the owner's word.
func (d *Daemon) heardHold(said *pb.ShimHold) {
	if d.owner.Raise(said.GetNumber(), d.ownerTime()) {
		d.keepLedger(nil)
	}
	d.say()
}

// Reclaim is greclaim --local. answer is told what came of it, unless the daemon ends
// before that.
func (d *Daemon) Reclaim(r owner.Request, answer func(error)) {
	if err := d.owner.Check(r); err != nil {
		answer(err)
		return
	}
	d.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Reclaim(r, now) == nil }, func() { answer(nil) })
}

// Release is grelease --local.
func (d *Daemon) Release(answer func()) {
	d.changeOwned(func(o *owner.Owner, now owner.Time) bool { o.Release(now); return true }, answer)
}

// Held says whether the node is held, as far as the daemon knows.
func (d *Daemon) Held() bool { return d.owner.Held() }

// Deadline is the boot time by which its guests have to be gone then.
func (d *Daemon) Deadline() time.Duration { return d.owner.Deadline() }

// HeldBy are the triggers of the holds.
func (d *Daemon) HeldBy() (all []pb.ReclaimTrigger) {
	for _, h := range d.owner.Ledger().GetHolds() {
		all = append(all, h.GetTrigger())
	}
	return all
}

// IsGuest says whether the daemon takes an allocation for a guest's.
func (d *Daemon) IsGuest(s *Shim) bool { return d.owner.Guest(s.Order) }

// triggers are those that a node can see.
var triggers = []pb.ReclaimTrigger{pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN}

// See has a trigger be there, or no longer.
func (n *Node) See(trigger pb.ReclaimTrigger, there bool) {
	if n.Seen == nil {
		n.Seen = map[pb.ReclaimTrigger]bool{}
	}
	n.Seen[trigger] = there
	n.Daemon.lookForTriggers()
}

// lookForTriggers looks every two seconds, as long as there is anything to see or to end.
func (d *Daemon) lookForTriggers() {
	if d.looking || !d.looks() {
		return
	}
	d.looking = true
	d.Host.After(d.Node.between(0, triggersEvery), d.lookOnce)
}

func (d *Daemon) lookOnce() {
	d.looking = false
	for _, trigger := range triggers {
		if d.owner.Watches(trigger) {
			sight := owner.Sight{Trigger: trigger, Seen: d.Node.Seen[trigger], By: "owner", Detail: "simulated"}
			d.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Look(sight, now) }, nil)
		}
	}
	if !d.looking && d.looks() {
		d.looking = true
		d.Host.After(triggersEvery, d.lookOnce)
	}
}

func (d *Daemon) looks() bool {
	for _, trigger := range triggers {
		if d.Node.Seen[trigger] {
			return true
		}
	}
	ledger := d.owner.Ledger()
	if len(ledger.GetMuted()) > 0 {
		return true
	}
	for _, h := range ledger.GetHolds() {
		if h.GetTrigger() != pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL {
			return true
		}
	}
	return false
}

// hold takes what the owner of the node says there: as in noded/shim, a guest that is not
// parked has no more time to end than is left until the deadline.
func (s *Shim) hold(hold *pb.HoldAlloc) {
	do := s.Core.Hold(hold, s.Node.Boottime())
	if do.Tell && s.Core.Awaits {
		s.resume()
	}
	s.look()
	s.carryOut(do)
	s.planDeadline()
	s.lookPark()
	if hold.GetHeld() && hold.GetKill() {
		within := time.Duration(hold.GetWithinMs()) * time.Millisecond
		s.end(min(time.Duration(s.Order.GetKillWaitS())*time.Second, within-supervise.KillTime(within)), pb.EndCause_END_CAUSE_RECLAIMED)
	}
}
