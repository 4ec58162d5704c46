package supervise

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// walker is a supervisor around an Alloc: the kernel, the driver, CRIU, and time.
type walker struct {
	*Alloc
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  time.Duration

	taking, giving bool // the driver and the kernel are at work
	stopped        bool // they were told to stop
	denied         bool // the kernel refuses the job its devices
	killed         bool

	highest *pb.SuspendAlloc
	by      time.Duration // the deadline, as the orders say
	told    *pb.AllocSuspended
	held    *pb.HoldAlloc // the highest that the owner said on the node
	heldBy  time.Duration
}

// hold says something as the owner on the node, and keeps count.
func (w *walker) hold() {
	hold := &pb.HoldAlloc{Number: uint64(w.rng.IntN(12)), Held: w.rng.IntN(2) == 0}
	if w.held != nil && w.rng.IntN(3) == 0 {
		hold = &pb.HoldAlloc{Number: w.held.Number, Held: w.held.Held}
	}
	if hold.Held && w.rng.IntN(4) > 0 {
		hold.WithinMs = uint32(1 + w.rng.IntN(3000))
	}
	if hold.Number != 0 && hold.Number >= w.held.GetNumber() {
		if !hold.Held || !w.held.GetHeld() {
			w.heldBy = 0
		}
		if by := w.now + time.Duration(hold.WithinMs)*time.Millisecond; hold.WithinMs != 0 && (w.heldBy == 0 || by < w.heldBy) {
			w.heldBy = by
		}
		w.held = hold
	}
	w.carryOut(w.Hold(hold, w.now))
}

// deadline is the earlier one of the two.
func (w *walker) deadline() time.Duration {
	if w.by == 0 || w.heldBy != 0 && w.heldBy < w.by {
		return w.heldBy
	}
	return w.by
}

func (w *walker) fail(format string, arguments ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %v: "+format, append([]any{w.seed, w.now}, arguments...)...)
}

// order sends an order to suspend, park or resume, and keeps count.
func (w *walker) order() {
	order := &pb.SuspendAlloc{Number: uint32(w.rng.IntN(12)), Suspended: w.rng.IntN(3) > 0}
	if w.highest != nil && w.rng.IntN(3) == 0 { // the same comes again, with less time
		order = &pb.SuspendAlloc{Number: w.highest.Number, Suspended: w.highest.Suspended, Park: w.highest.Park}
	} else {
		order.Park = order.Suspended && w.rng.IntN(2) == 0
	}
	if order.Park && w.rng.IntN(4) > 0 {
		order.WithinMs = uint32(1 + w.rng.IntN(3000))
	}
	former := w.highest
	if order.Number > former.GetNumber() {
		if w.highest = order; !order.Park || !former.GetPark() {
			w.by = 0
		}
	}
	if order.Number != 0 && order.Number == w.highest.GetNumber() && w.highest.Park && order.WithinMs != 0 {
		if by := w.now + time.Duration(order.WithinMs)*time.Millisecond; w.by == 0 || by < w.by {
			w.by = by
		}
	}
	w.carryOut(w.Suspend(order, w.now))
	if w.Park.By != w.deadline() {
		w.fail("the deadline is %v, and the orders say %v", w.Park.By, w.deadline())
	}
}

func (w *walker) carryOut(do Do) {
	if do.Abort != nil && !w.Dumping() && w.Now != nil && !w.Now.Step.Mends() {
		w.saved(do.Abort)
	}
	if do.StopPark != nil {
		w.stopped = true
	}
	if do.Freeze {
		w.Froze()
	}
	if (do.Park || do.Unpark) && (w.taking || w.giving) {
		w.fail("two things at once")
	}
	if do.Park {
		w.taking, w.stopped = true, false
		if w.rng.IntN(2) == 0 && w.RunToPark(w.now) {
			w.denied = false // what runs has its devices
		}
	}
	w.giving = w.giving || do.Unpark
	if do.Tell {
		w.told = w.Suspended()
	}
}

func (w *walker) saved(failure error) {
	var image *pb.Image
	if failure == nil {
		image = &pb.Image{Number: 1}
	}
	w.Held = false
	w.carryOut(w.Saved(w.Outcome(w.Now, image, failure)))
}

// works lets what was begun go on.
func (w *walker) works() {
	switch {
	case w.taking:
		w.taking = false
		if w.stopped || w.rng.IntN(3) == 0 {
			if w.rng.IntN(2) == 0 { // it was frozen and refused them already
				w.denied = true
				w.Froze()
			}
			do := w.TookDevices(errors.New("it failed"), Refusal(w.rng.IntN(3)), w.now)
			if do.CannotPark && (!w.Park.Wanted || w.deadline() == 0 && !w.held.GetHeld()) {
				w.fail("it ends because it cannot be parked, and nobody waits for its devices")
			}
			w.carryOut(do)
			return
		}
		w.denied = true
		w.Froze()
		w.carryOut(w.TookDevices(nil, RefusalPasses, w.now))
	case w.giving:
		w.giving = false
		if w.rng.IntN(4) == 0 {
			w.carryOut(w.GaveDevices(errors.New("it failed"), w.now))
			return
		}
		w.denied = false
		w.carryOut(w.GaveDevices(nil, w.now))
	}
}

// saves orders a save, or takes one further.
func (w *walker) saves() {
	switch {
	case w.Now == nil:
		w.carryOut(w.Save(&pb.SaveAlloc{Number: w.Last.GetNumber() + 1}))
		if w.Now == nil {
			return
		}
		if failure := w.MaySave(); failure != nil {
			w.saved(failure)
		}
	case w.Now.Step == StepClear:
		w.saved(nil)
	default:
		w.Now.Step++
		w.Held = w.Now.Step >= StepFreeze && w.Now.Step < StepResume
	}
}

// looks does what a supervisor does whenever something has happened.
func (w *walker) looks() {
	w.carryOut(w.Look(w.now, w.taking))
	w.carryOut(w.LookPark(w.now))
	if w.Overdue(w.now) {
		w.killed = true
	}
	if by := w.deadline(); by != 0 && w.now >= by && !w.denied && !w.killed {
		w.fail("it is neither parked nor killed, and the deadline was %v", by)
	}
	if !w.killed && w.Lease.Runs && w.denied && !w.taking {
		w.fail("it runs without its devices, %s", w.Park.Step)
	}
	if w.Park.Step == Parked && (!w.denied || w.Lease.Runs) {
		w.fail("it is parked; denied %v, runs %v", w.denied, w.Lease.Runs)
	}
}

// TestParkWhateverComes: orders come late, twice and out of order; attempts fail, saves are
// under way, the lease comes and goes. Nothing runs without its devices, the deadline is met, and in
// the end the order with the highest number holds.
func TestParkWhateverComes(t *testing.T) {
	ends := map[ParkStep]int{}
	kills, both := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := &walker{t: t, seed: seed, rng: rng, now: time.Hour, Alloc: &Alloc{
			ID: &pb.AllocId{Job: 1, Epoch: 1}, Up: true, Ready: true, Released: true,
			Lease: lease.Lease{Fence: rng.IntN(2) == 0, Begun: 1, End: time.Hour + time.Minute, Margin: time.Hour, Runs: true},
		}}
		for range 80 {
			switch rng.IntN(7) {
			case 0:
				w.order()
			case 6:
				w.hold()
			case 1:
				w.saves()
			case 2:
				w.works()
			case 3:
				if w.Lease.Fence {
					w.Lease.End = w.now + time.Duration(rng.IntN(int(time.Second)))
				}
			default:
				w.now += time.Duration(rng.IntN(int(200 * time.Millisecond)))
			}
			w.looks()
			if w.killed {
				break
			}
		}
		if w.killed {
			kills++
			continue
		}
		// From now on all goes well.
		w.Lease.End, w.by, w.heldBy = w.now+time.Hour, 0, 0
		w.Park.Deadline, w.Ordered.Deadline, w.Own.Deadline = Deadline{}, Deadline{}, Deadline{}
		for range 100 {
			w.now += parkLeisurePause / 20
			if w.Now != nil {
				w.saves()
			}
			if w.stopped = false; w.taking {
				w.taking, w.denied = false, true
				w.Froze()
				w.carryOut(w.TookDevices(nil, RefusalPasses, w.now))
			} else if w.giving {
				w.giving, w.denied = false, false
				w.carryOut(w.GaveDevices(nil, w.now))
			}
			w.looks()
		}
		ends[w.Park.Step]++
		wanted := w.highest.GetPark() || w.held.GetHeld()
		if wanted != (w.Park.Step == Parked) || w.Lease.Runs == (w.highest.GetSuspended() || w.held.GetHeld()) || w.denied != wanted {
			w.fail("the last order is %v, the owner says %v, and it is %s, runs %v, denied %v", w.highest, w.held, w.Park.Step, w.Lease.Runs, w.denied)
		}
		if w.highest != nil && (w.told.GetNumber() != w.highest.Number || w.told.GetParked() != w.highest.Park) {
			w.fail("the last order is %v, and it tells %v", w.highest, w.told)
		}
		if said := w.Holds(); said.GetNumber() != w.held.GetNumber() || said.GetHeld() != w.held.GetHeld() || w.held != nil && said.GetParked() != wanted {
			w.fail("the owner says %v, and it tells %v", w.held, said)
		}
		if w.highest.GetPark() != w.held.GetHeld() {
			both++
		}
	}
	if ends[Parked] < 300 || ends[ParkHeld] < 200 || kills < 300 || both < 300 {
		t.Errorf("the walks are not what they should be: %v, %d killed, %d times the two disagree", ends, kills, both)
	}
}
