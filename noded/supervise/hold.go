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
	Park      bool // and its devices are the owner's
	Deadline
}

// Hold takes what the owner says on the node. The word with the highest number counts;
// among those that hold the job, without another in between, the earliest deadline does.
func (a *Alloc) Hold(hold *pb.HoldAlloc, now time.Duration) Do {
	if hold.GetNumber() < a.HoldNumber || hold.GetNumber() == 0 {
		return Do{}
	}
	by := Within(hold.GetWithinMs(), hold.GetLateMs(), now)
	if a.Own.Park && hold.GetHeld() {
		by = a.Own.Earlier(by)
	}
	a.HoldNumber, a.Own = hold.GetNumber(), Wish{}
	if hold.GetHeld() {
		a.Own = Wish{Suspended: true, Park: true, Deadline: by}
	}
	do := a.combine(now, hold.GetLateMs())
	do.Tell = true
	return do
}

// combine works out from both wishes what the job does. lateMS is by how much the word that
// has just come is later than its own deadline.
func (a *Alloc) combine(now time.Duration, lateMS uint32) Do {
	a.Lease.Suspended = a.Ordered.Suspended || a.Own.Suspended
	p, wanted := &a.Park, a.Ordered.Park || a.Own.Park
	p.Deadline = a.Ordered.Deadline.Earlier(a.Own.Deadline)
	if !a.AtLeisure() { // what could wait may not be able to any longer
		p.after = min(p.after, now+parkPause)
	}
	switch {
	case wanted && !p.Wanted:
		p.Wanted, p.Since, p.after, p.Why, p.held = true, now, 0, nil, 0
		p.parts = parts{}
		p.parts.took[PartOrder] = time.Duration(lateMS) * time.Millisecond
	case !wanted && p.Wanted:
		p.Wanted, p.after = false, 0
		if p.Step == ParkTaking {
			return Do{StopPark: ErrParkCalledOff}
		}
	}
	return Do{}
}

// Deadline is by when an allocation is parked or over.
type Deadline struct {
	By   time.Duration // CLOCK_BOOTTIME; 0 = never
	Kill time.Duration // when it is killed that is not parked: so early that its devices are free by By
}

// killTime is how long before the deadline an allocation is killed that is not parked. Its
// processes have to die, and the kernel has to free what they had; on a busy machine that
// takes some tenths of a second. Where there is less time than twice that, half of it is
// for parking.
const killTime = 500 * time.Millisecond

// lateTime is how long a job has to be parked whose order came after its deadline. The owner
// waits already, and killing it would take about as long.
const lateTime = 250 * time.Millisecond

// KillTime is how much of the time until a deadline is left to the KILL.
func KillTime(within time.Duration) time.Duration { return min(killTime, within/2) }

// Within is the deadline of something that may take so many milliseconds, 0 = none, or whose
// deadline was over so many before.
func Within(ms, lateMS uint32, now time.Duration) Deadline {
	switch {
	case ms == 0:
		return Deadline{}
	case lateMS > 0:
		return Deadline{By: max(now-time.Duration(lateMS)*time.Millisecond, 1), Kill: now + lateTime}
	}
	left := time.Duration(ms) * time.Millisecond
	return Deadline{By: now + left, Kill: now + left - KillTime(left)}
}

// Earlier is the earlier of two deadlines.
func (d Deadline) Earlier(other Deadline) Deadline {
	if d.By == 0 || other.By == 0 {
		return Deadline{max(d.By, other.By), max(d.Kill, other.Kill)}
	}
	return Deadline{min(d.By, other.By), min(d.Kill, other.Kill)}
}

// Holds says how far the owner's hold is; nil when the owner never said anything here.
func (a *Alloc) Holds() *pb.ShimHold {
	if a.HoldNumber == 0 {
		return nil
	}
	said := &pb.ShimHold{Number: a.HoldNumber, Held: a.Own.Park}
	if a.Park.Step == Parked {
		said.Parked, said.GpuBytes, said.Freed = true, a.Park.GPU, a.Park.Freed
	}
	return said
}
