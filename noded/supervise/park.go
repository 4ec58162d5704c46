package supervise

import (
	"errors"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ParkStep is how far the allocation's devices are the node's owner's.
//
//	Held ─► Taking ─┬─► Parked ─┬─► Giving ─► Held
//	          ▲     └─► Failed ─┤     ▲ │
//	          └─────────────────┘     └─┘ it failed: again after a pause
type ParkStep int

// The steps.
const (
	ParkHeld   ParkStep = iota // the job has its devices
	ParkTaking                 // GPU memory is copied, processes are frozen, the rule is changed
	ParkFailed                 // that failed: the job may have lost a part of its devices
	Parked                     // the kernel refuses the job its devices, and it is frozen
	ParkGiving                 // the devices are given back; the job does not run until they are
)

var parkNames = [...]string{"held", "taking", "failed", "parked", "giving"}

// String names a step.
func (s ParkStep) String() string { return parkNames[s] }

// Park is what is asked and known about leaving the allocation's devices to the owner of
// its node.
type Park struct {
	Wanted bool
	Step   ParkStep
	Since  time.Duration // CLOCK_BOOTTIME of the first order or hold, like all of these
	Deadline
	Took  time.Duration     // from Since until it was parked
	GPU   uint64            // bytes that were copied from its GPUs for that
	Freed *pb.HardwareFreed // what was measured of that
	Why   error             // it failed last; nil = it did not
	after time.Duration     // when it is tried again
	parts parts
	tried time.Duration // when the attempt under way, or the last one, began
	held  time.Duration // when the first of the attempts in a row began that failed because something was held; 0 = the last one did not
}

// Refusal says how long that lasts for which an attempt to park fails.
type Refusal int

// The refusals.
const (
	// RefusalPasses: it may be different next time. That is tried until the deadline.
	RefusalPasses Refusal = iota
	// RefusalHeld: a process has a device open from which nothing can be taken. Programs that
	// only ask about GPUs close it in a moment; if it is still so after HeldPatience, it lasts.
	RefusalHeld
	// RefusalLasts: it is the same as long as the job does its work.
	RefusalLasts
)

// HeldPatience is how long a process may have a device open, or half of the time until the
// deadline if that is less.
const HeldPatience = 2 * time.Second

// HeldUntil is until when a process may that had it open at some time.
func (p *Park) HeldUntil(since time.Duration) time.Duration {
	if p.Kill == 0 {
		return since + HeldPatience
	}
	return since + min(HeldPatience, max(p.Kill-since, 0)/2)
}

// parkPause is how long a job is left alone after an attempt that failed: each may copy
// all that it has on its GPUs. Where nobody waits for them there is more time.
const (
	parkPause        = 200 * time.Millisecond
	parkLeisurePause = time.Minute
)

// AtLeisure says that the job is parked for nobody: there is no deadline, and no owner.
func (a *Alloc) AtLeisure() bool { return a.Park.Wanted && a.Park.By == 0 && !a.Own.Park }

// parkAfter is when it is tried again, after an attempt that failed.
func (a *Alloc) parkAfter(now time.Duration) time.Duration {
	if a.AtLeisure() {
		return now + parkLeisurePause
	}
	return now + parkPause
}

var (
	// ErrReclaimed is why a save ends, or is refused, that would keep the owner waiting.
	ErrReclaimed = errors.New("the owner of the node has taken it back")
	// ErrParkCalledOff is why an attempt to park ends that nobody wants any longer.
	ErrParkCalledOff = errors.New("the owner of the node lends it again")
)

// Suspend takes an order to suspend the job, to park it too, or to resume it. The one
// with the highest number counts. Among those that park it, without another in between,
// the earliest deadline counts, also that of an order that comes again.
func (a *Alloc) Suspend(order *pb.SuspendAlloc, now time.Duration) Do {
	if order.GetNumber() < a.SuspendNumber || order.GetNumber() == 0 {
		return Do{}
	}
	park := order.GetSuspended() && order.GetPark()
	by := Within(order.GetWithinMs(), order.GetLateMs(), now)
	if a.Ordered.Park && park {
		by = a.Ordered.Earlier(by)
	}
	if order.GetNumber() == a.SuspendNumber {
		if park && a.Ordered.Park {
			a.Ordered.Deadline = by
		}
		return a.combine(now, order.GetLateMs())
	}
	a.SuspendNumber, a.Ordered = order.GetNumber(), Wish{Suspended: order.GetSuspended(), Park: park}
	if park {
		a.Ordered.Deadline = by
	}
	do := a.combine(now, order.GetLateMs())
	do.Tell = true
	return do
}

// LookPark answers what is to be done now about parking: Park or Unpark, which the caller
// begins once; Abort, which ends the save in the way; Again. Whether the job ends does not matter to
// its deadline: see Overdue.
func (a *Alloc) LookPark(now time.Duration) Do {
	p := &a.Park
	switch {
	case a.Ending || !a.Up && !a.Awaits:
		return Do{} // it holds its devices until it has ended, or has not begun
	case p.Wanted && (p.Step == ParkHeld || p.Step == ParkFailed):
		return a.lookToPark(now)
	case !p.Wanted && (p.Step == ParkFailed || p.Step == Parked):
		return a.lookToGive(now)
	}
	return Do{}
}

// lookToGive answers whether the devices are given back now. A save of the job as it stands
// parked, which has not frozen it for itself yet, ends before.
func (a *Alloc) lookToGive(now time.Duration) Do {
	switch {
	case a.Now != nil && a.Now.Parked && a.Now.Step < StepDump:
		return Do{Abort: ErrAborted, Again: true}
	case now < a.Park.after:
		return Do{Again: true}
	}
	a.Park.Step = ParkGiving
	return Do{Unpark: true}
}

// undoTime is how long before the job is killed a dump is given up that is in the way: CRIU
// may need seconds to undo what it has begun. Where there is less time than twice that, half
// of it is for the dump.
const undoTime = 15 * time.Second

// dumpUntil is how long a dump in the way is waited for.
func (p *Park) dumpUntil() time.Duration { return p.Kill - min(undoTime, max(p.Kill-p.Since, 0)/2) }

// lookToPark answers whether an attempt to park begins now. A save that has not dumped
// the job yet ends for it. One that dumps it is waited for, because processes that CRIU lets
// go of in the middle may die, but not until the job is killed for being late, which would
// cost all that it did since its image before. A later step works on copies.
func (a *Alloc) lookToPark(now time.Duration) Do {
	switch {
	case a.Now != nil && a.Now.Step < StepDump, a.Dumping() && a.Park.Kill != 0 && now >= a.Park.dumpUntil():
		a.Park.parts.begin(PartSave, now)
		return Do{Abort: ErrReclaimed, Again: true}
	case a.Now != nil && a.Now.Step != StepPack:
		a.Park.parts.begin(PartSave, now)
		return Do{Again: true}
	case now < a.Park.after:
		a.Park.parts.begin(PartPause, now)
		return Do{Again: true}
	}
	a.Park.Step, a.Park.tried = ParkTaking, now
	return Do{Park: true}
}

// RunToPark lets a suspended job run, because the driver of its GPUs works in its
// processes. It answers false where it may not run even for that.
func (a *Alloc) RunToPark(now time.Duration) bool {
	if a.Park.Step != ParkTaking || a.Held || a.Frozen != nil || a.Awaits || a.Ending || !a.MayRun(now) {
		return false
	}
	a.Lease.Runs = true
	return true
}

// TookDevices notes how an attempt to park ended; nil = the kernel refuses the job its
// devices, and it is frozen. If the refusal lasts and somebody waits for the devices, then
// another attempt would only keep them waiting, and the job ends.
func (a *Alloc) TookDevices(failure error, refusal Refusal, now time.Duration) Do {
	if failure != nil {
		lasts := a.refusalLasts(refusal, now)
		a.Park.Step, a.Park.Why, a.Park.after = ParkFailed, failure, a.parkAfter(now)
		return Do{Tell: true, CannotPark: lasts && a.Park.Wanted && !a.AtLeisure()}
	}
	a.Park.Step, a.Park.Why, a.Park.Took = Parked, nil, now-a.Park.Since
	a.Park.Freed = a.Park.measured(now)
	return Do{Tell: true}
}

// refusalLasts says whether an attempt failed for what lasts. What is held does so if a
// second attempt, and the time for it, did not help.
func (a *Alloc) refusalLasts(refusal Refusal, now time.Duration) bool {
	p := &a.Park
	if refusal != RefusalHeld {
		p.held = 0
		return refusal == RefusalLasts
	}
	if p.held == 0 {
		p.held = p.tried
		return false
	}
	return now >= p.HeldUntil(p.held)
}

// GaveDevices notes how giving the devices back ended. Without them the job does not run.
func (a *Alloc) GaveDevices(failure error, now time.Duration) Do {
	if failure != nil {
		a.Park.Step, a.Park.Why, a.Park.after = ParkFailed, failure, now+parkPause
		return Do{}
	}
	a.Park.Step, a.Park.Why, a.Park.after = ParkHeld, nil, 0
	return Do{Tell: true}
}

// Overdue says whether the allocation must be killed now, so that its devices are the
// owner's at the deadline, whatever the job, its end or a save of it does.
func (a *Alloc) Overdue(now time.Duration) bool {
	return a.Park.By != 0 && now >= a.Park.Kill && a.Park.Step != Parked
}

// takes says whether the devices of a job that is to be parked are still to be taken from
// it: then what takes them freezes it.
func (p *Park) takes() bool { return p.Wanted && (p.Step == ParkHeld || p.Step == ParkTaking) }

// lacks says whether the job may lack its devices, so that it must not run.
func (p *Park) lacks() bool { return p.Step != ParkHeld }
