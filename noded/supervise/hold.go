package supervise

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file combines what the controllers order with what the owner of the node says
// there, which needs no controller. The job runs only if neither forbids it:
//
//	controllers │ owner on the node │ the job
//	────────────┼───────────────────┼──────────────────────────────────────
//	run         │ lends it          │ runs
//	suspend     │ lends it          │ is frozen
//	park        │ lends it          │ is parked, by the controllers' deadline
//	any         │ holds it          │ is parked, by the earlier of the deadlines
//
// Each has numbers of its own, so that a late word of one never undoes the other's.

// Wish is what one of the two wants of the job.
type Wish struct {
	Suspended bool
	Park      bool          // and its devices are the owner's
	By        time.Duration // CLOCK_BOOTTIME by which it is parked or killed; 0 = never
}

// Hold takes what the owner says on the node. The word with the highest number counts;
// among those that hold the job, without another in between, the earliest deadline does.
func (a *Alloc) Hold(hold *pb.HoldAlloc, now time.Duration) Do {
	if hold.GetNumber() < a.HoldNumber || hold.GetNumber() == 0 {
		return Do{}
	}
	by := byWhen(hold.GetWithinMs(), now)
	if a.Own.Park && hold.GetHeld() {
		by = earlier(a.Own.By, by)
	}
	a.HoldNumber, a.Own = hold.GetNumber(), Wish{}
	if hold.GetHeld() {
		a.Own = Wish{Suspended: true, Park: true, By: by}
	}
	do := a.combine(now)
	do.Tell = true
	return do
}

// combine works out from both wishes what the job does.
func (a *Alloc) combine(now time.Duration) Do {
	a.Lease.Suspended = a.Ordered.Suspended || a.Own.Suspended
	p, wanted := &a.Park, a.Ordered.Park || a.Own.Park
	p.By = earlier(a.Ordered.By, a.Own.By)
	if !a.AtLeisure() { // what could wait may not be able to any longer
		p.after = min(p.after, now+parkPause)
	}
	switch {
	case wanted && !p.Wanted:
		p.Wanted, p.Since, p.after, p.Why = true, now, 0, nil
	case !wanted && p.Wanted:
		p.Wanted, p.after = false, 0
		if p.Step == ParkTaking {
			return Do{StopPark: ErrParkCalledOff}
		}
	}
	return Do{}
}

// byWhen is the deadline of something that may take so long; 0 = none.
func byWhen(withinMS uint32, now time.Duration) time.Duration {
	if withinMS == 0 {
		return 0
	}
	return now + time.Duration(withinMS)*time.Millisecond
}

// earlier is the earlier of two deadlines, of which 0 is none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Holds says how far the owner's hold is; nil when the owner never said anything here.
func (a *Alloc) Holds() *pb.ShimHold {
	if a.HoldNumber == 0 {
		return nil
	}
	said := &pb.ShimHold{Number: a.HoldNumber, Held: a.Own.Park}
	if a.Park.Step == Parked {
		said.Parked, said.ParkMs = true, uint32(max(a.Park.Took, time.Millisecond).Milliseconds())
		said.GpuBytes = a.Park.GPU
	}
	return said
}
