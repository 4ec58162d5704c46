// Package supervise decides what the supervisor of one allocation does: whether the
// job's processes run, which image of it is made, and what the node daemon is told.
//
// Contract: pure. There is no clock, no lock, no goroutine and no I/O in here. The
// caller (noded/shim) says what happened: an order of a controller, an answer to a
// request for a lease, a step of a save that was taken or failed, or what time it is
// (CLOCK_BOOTTIME, a number). Each of these answers what to do, as a Do. What the
// package promises then: the processes run only while neither the lease, nor a
// suspension, nor a save wants them frozen, and while the job has its devices; a job that
// is to leave them to the owner of its node has done so by the deadline, or is over; a job
// that is frozen with its image resumes only when an order asks for that; at most one save
// is under way; the outcome of the
// highest save that was ordered is told in the end; and an older order never undoes what
// a later one asked for. Only one goroutine may use it at a time.
package supervise

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Alloc is what a supervisor knows of its allocation, as far as it decides by it.
type Alloc struct {
	ID       *pb.AllocId
	Gang     bool // it has several allocations, which begin together
	Host     bool // it is the batch host: this node runs the script
	Restored bool // it resumes from an image
	// NetworkEnd is where it takes part in the network that its job has between its nodes;
	// nil = there is none.
	NetworkEnd *pb.NetworkEnd

	Lease         lease.Lease
	SuspendNumber uint32 // the highest of the controllers' orders to suspend or to resume
	Ordered       Wish   // what that order wants
	HoldNumber    uint64 // the highest of what the owner said on the node
	Own           Wish   // what that wants
	Up            bool   // its container runs
	Ready         bool   // or its processes are restored: the daemon is told
	Awaits        bool   // it is restored, and frozen until the other allocations are too
	Released      bool   // the script may run
	Ending        bool   // somebody asked for its end
	Held          bool   // frozen for a save
	Park          Park
	Saves
}

// Do is what is to be done, in the order of its fields.
type Do struct {
	Abort  error // end the save under way for this reason; nil = it continues
	Freeze bool  // the processes; then Froze
	Thaw   bool  // they may run, unless a save holds them; then tell
	Again  bool  // look again soon: what is asked for cannot be done yet
	Remove bool  // the allocation ends, and does not run again
	Resume bool  // the job runs here after it was saved, once what was begun earlier is over
	Begin  *Save // this save, after that
	Tell   bool  // what the daemon is told may have changed

	Park     bool  // take the job's devices from it; then TookDevices
	StopPark error // end that, for this reason; it ends with TookDevices all the same
	Unpark   bool  // give them back; then GaveDevices

	CannotPark bool // the job cannot be parked, and its owner waits: end it, with its time for that
}

// GrantOf is what a controller's answer to a request for a lease says of one
// allocation.
func GrantOf(renewed *pb.LeaseRenewed, id *pb.AllocId) lease.Grant {
	grant := lease.Grant{
		Sent:   time.Duration(renewed.GetSentBoottimeNs()),
		Length: time.Duration(renewed.GetLeaseMs()) * time.Millisecond,
		Margin: time.Duration(renewed.GetLeaseMarginMs()) * time.Millisecond,
	}
	for _, named := range renewed.GetAllocs() {
		grant.Named = grant.Named || named.GetJob() == id.GetJob() && named.GetEpoch() == id.GetEpoch()
	}
	return grant
}

// Renew takes a controller's answer to a request for a lease.
func (a *Alloc) Renew(renewed *pb.LeaseRenewed) {
	a.Lease = a.Lease.Granted(GrantOf(renewed, a.ID))
}

// Start answers what the lease says before anything of the allocation has run. Under
// "fence" it starts only when an answer that was requested after the order came names
// it: the order alone may come from a controller that led once. What may start counts as
// running from now on.
func (a *Alloc) Start(now time.Duration) lease.Action {
	action := a.Lease.At(now)
	if action == lease.Thaw {
		a.Lease.Runs = true
		return lease.Run
	}
	return action
}

// Look answers what lease and suspension ask for now. busy says that the processes have
// to run until the driver of their GPUs has finished.
func (a *Alloc) Look(now time.Duration, busy bool) Do {
	switch a.Lease.At(now) {
	case lease.Thaw:
		if a.Park.lacks() {
			return Do{} // LookPark has them given back first
		}
		if a.Dumping() {
			return Do{Again: true} // CRIU has the freezer
		}
		a.Lease.Runs = true
		return Do{Thaw: true}
	case lease.Remove:
		return Do{Remove: true}
	case lease.Freeze:
		if !a.Lease.MayRun(now) {
			return Do{Freeze: true, Abort: a.leaseEndsSave(), StopPark: a.leaseEndsPark()}
		}
		if a.Park.takes() {
			return Do{}
		}
		// Suspended. During a dump it is frozen already, and CRIU has the freezer.
		if busy || a.Dumping() {
			return Do{Again: true}
		}
		return Do{Freeze: true}
	default:
		return Do{}
	}
}

// Froze notes that the kernel froze the processes, as Look wanted.
func (a *Alloc) Froze() { a.Lease.Runs = false }

// MayRun says whether the lease lets the job run now, if only to end.
func (a *Alloc) MayRun(now time.Duration) bool { return a.Lease.MayRun(now) }

// Runs says whether the processes are to run: lease, suspension and save agree.
func (a *Alloc) Runs() bool { return a.Lease.Runs && !a.Held }

// Await notes that the allocation is restored. It stays frozen until all of its job are.
func (a *Alloc) Await() { a.Ready, a.Awaits = true, true }

// Awaited says whether a restored allocation of several may run, as far as the others
// and a suspension are concerned. The lease is asked last, by MayRun.
func (a *Alloc) Awaited() bool { return a.Released && !a.Lease.Suspended && !a.Park.lacks() }

// Started notes that the container runs. It answers whether that released the script,
// which is released by StartBatch where it waits for other nodes.
func (a *Alloc) Started() (released bool) {
	a.Up, a.Ready, a.Awaits = true, true, false
	if a.Released || a.Gang && a.Host {
		return false
	}
	a.Released = true
	return true
}

// Batch is what an order to start the script asks for.
type Batch int

// What that is.
const (
	BatchEarly   Batch = iota // the container is not up yet: refuse
	BatchNothing              // it came before, or is none of this node's business
	BatchResume               // restored processes may run, with those of the other nodes
	BatchStart                // process 1 starts the script; then release it
)

// StartBatch answers what an order to start the script asks for. It may come twice.
func (a *Alloc) StartBatch() Batch {
	switch {
	case !a.Ready:
		return BatchEarly
	case a.Released, !a.Host && !a.Restored, a.Ending:
		return BatchNothing
	case a.Restored:
		return BatchResume
	}
	return BatchStart
}

// End ends whatever holds the processes, so that they can clean up before they are
// killed. It answers false where they may not run even for that: their lease is over,
// the job resumes elsewhere from where it is frozen, or the owner of the node has what
// they would run on.
func (a *Alloc) End(now time.Duration) (gently bool) {
	if a.Park.Step == Parked || !a.MayRun(now) || a.Frozen != nil {
		return false
	}
	a.Lease.Runs = true
	return true
}
