package supervise

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestOrdersAndHolds: what controllers order and what the owner says on the node, in each
// combination and in either order.
func TestOrdersAndHolds(t *testing.T) {
	const now = time.Minute
	run, suspend := &pb.SuspendAlloc{Number: 5}, &pb.SuspendAlloc{Number: 5, Suspended: true}
	park := &pb.SuspendAlloc{Number: 5, Suspended: true, Park: true, WithinMs: 3000}
	lends, holds := &pb.HoldAlloc{Number: 7}, &pb.HoldAlloc{Number: 7, Held: true, WithinMs: 2000}
	for _, row := range []struct {
		order           *pb.SuspendAlloc
		hold            *pb.HoldAlloc
		suspended, park bool
		by              time.Duration
	}{
		{run, lends, false, false, 0},
		{suspend, lends, true, false, 0},
		{park, lends, true, true, now + 3*time.Second},
		{run, holds, true, true, now + 2*time.Second},
		{suspend, holds, true, true, now + 2*time.Second},
		{park, holds, true, true, now + 2*time.Second},
	} {
		for _, first := range []bool{true, false} {
			a := &Alloc{Up: true, Ready: true, Lease: lease.Lease{Runs: true}}
			if first {
				a.Suspend(row.order, now)
			}
			a.Hold(row.hold, now)
			a.Suspend(row.order, now)
			// A late word of either changes nothing.
			a.Suspend(&pb.SuspendAlloc{Number: 4, Suspended: !row.order.Suspended, Park: true, WithinMs: 1}, now)
			a.Hold(&pb.HoldAlloc{Number: 6, Held: !row.hold.Held, WithinMs: 1}, now)
			if a.Lease.Suspended != row.suspended || a.Park.Wanted != row.park || a.Park.By != row.by {
				t.Errorf("%v and %v: suspended %v, park %+v", row.order, row.hold, a.Lease.Suspended, a.Park)
			}
		}
	}
}

// TestHoldEndsAlone: the end of the owner's hold does not undo the order of controllers, and an
// order to continue does not undo the hold.
func TestHoldEndsAlone(t *testing.T) {
	a := &Alloc{ID: &pb.AllocId{Job: 1, Epoch: 1}, Up: true, Ready: true, Lease: lease.Lease{Runs: true}}
	a.Hold(&pb.HoldAlloc{Number: 1, Held: true}, time.Second)
	if do := a.LookPark(time.Second); !do.Park {
		t.Fatalf("it is not parked: %+v", do)
	}
	a.Froze()
	a.TookDevices(nil, RefusalPasses, time.Second)
	if a.Suspended() != nil || !a.Holds().GetParked() {
		t.Errorf("controllers are told %v, the node %v", a.Suspended(), a.Holds())
	}
	a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true}, 2*time.Second)
	if said := a.Suspended(); !said.GetFrozen() || !said.GetParked() {
		t.Errorf("it is parked already, and controllers are told %v", said)
	}
	a.Hold(&pb.HoldAlloc{Number: 2}, 3*time.Second)
	if do := a.LookPark(3 * time.Second); do.Unpark || a.Look(3*time.Second, false).Thaw {
		t.Error("it continues on what the controllers may have given to another job")
	}
	a.Hold(&pb.HoldAlloc{Number: 3, Held: true}, 4*time.Second)
	a.Suspend(&pb.SuspendAlloc{Number: 2}, 4*time.Second)
	if do := a.LookPark(4 * time.Second); do.Unpark || a.Suspended().GetParked() {
		t.Errorf("an order to continue undoes the owner's hold: %+v, %v", do, a.Suspended())
	}
	if a.End(4 * time.Second) {
		t.Error("a job that ends runs on what the owner holds")
	}
	a.Hold(&pb.HoldAlloc{Number: 4}, 5*time.Second)
	if a.End(5 * time.Second) {
		t.Error("a job that ends runs without its devices")
	}
	if do := a.LookPark(5 * time.Second); !do.Unpark {
		t.Errorf("both lend it, and it does not continue: %+v", do)
	}
}
