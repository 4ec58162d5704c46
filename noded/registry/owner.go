package registry

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has what the node's owner says there, which needs no controller. It stands
// beside the controllers' orders: see package supervise, which combines them.

// Said passes on to each supervisor what the owner says of its allocation, where that is
// new.
func (r *Registry) Said(now Time) (do Do) {
	for _, p := range r.All() {
		r.say(p, now, &do)
	}
	return do
}

func (r *Registry) say(p *Alloc, now Time, do *Do) {
	if r.Word == nil || p.Life.Over() {
		return
	}
	word := r.Word(p.Order, now)
	// One that nobody ever held need not hear that it is not.
	if word.GetNumber() == 0 || word.GetNumber() == p.Hold.Number || !word.GetHeld() && p.Hold.Number == 0 {
		return
	}
	p.Hold.Number, p.Hold.Held, p.Hold.Deadline = word.GetNumber(), word.GetHeld(), supervise.Deadline{}
	if word.GetHeld() {
		p.Hold.Deadline = supervise.Within(word.GetWithinMs(), word.GetLateMs(), now.Boot)
	}
	do.Pass = append(do.Pass, Pass{Alloc: p, Hold: word})
}

// reclaimedHere says whether a start is refused, because its job would be a guest on a
// node that its owner has taken.
func (r *Registry) reclaimedHere(order *pb.StartAlloc, now Time) bool {
	return r.Word != nil && r.Word(order, now).GetHeld()
}

// hearHold notes how far a supervisor is with what the owner said, to this daemon or to
// one before it: then Said passes on what is new since.
func (d *Do) hearHold(p *Alloc, said *pb.ShimHold) {
	if p.Hold.Number == 0 {
		p.Hold.Number = said.GetNumber()
	} else if said.GetParked() && p.Hold.Number == said.GetNumber() {
		d.parked(p, said.GetGpuBytes(), said.GetFreed().GetTookMs())
	}
	p.Hold.Parked, p.Hold.Freed = said.GetParked(), said.GetFreed()
}

// Free says whether the allocation has nothing of the node but memory and disk.
func (p *Alloc) Free() bool { return p.Parked || p.Hold.Parked || p.Life.Over() }

// deadline is by when it has to be parked or over.
func (p *Alloc) deadline() supervise.Deadline { return p.Park.Earlier(p.Hold.Deadline) }

// killTime is when its supervisor is killed that has neither parked nor ended it: a while
// after that should have killed it, and so early that its devices are free by the deadline.
// Where the daemon heard of it too late for that, the supervisor may have parked it long ago,
// and gets some time to say so.
func (p *Alloc) killTime() time.Duration {
	d := p.deadline()
	if lead := d.By - d.Kill; lead >= leastLead {
		return d.Kill + lead/2
	}
	return d.Kill + answerTime
}

const (
	leastLead  = 250 * time.Millisecond
	answerTime = 2 * time.Second
)
