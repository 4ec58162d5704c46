package registry

import (
	"time"

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
	p.Hold.Number, p.Hold.Held, p.Hold.By = word.GetNumber(), word.GetHeld(), 0
	if word.GetHeld() {
		p.Hold.By = now.Boot + time.Duration(word.GetWithinMs())*time.Millisecond
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
		d.measured(p, said.GetGpuBytes(), said.GetParkMs())
	}
	p.Hold.Parked, p.Hold.ParkMS = said.GetParked(), said.GetParkMs()
}

// Free says whether the allocation has nothing of the node but memory and disk.
func (p *Alloc) Free() bool { return p.Parked || p.Hold.Parked || p.Life.Over() }

// deadline is by when it has to be parked or over; 0 = never.
func (p *Alloc) deadline() time.Duration {
	if p.Park.By == 0 || p.Hold.By != 0 && p.Hold.By < p.Park.By {
		return p.Hold.By
	}
	return p.Park.By
}
