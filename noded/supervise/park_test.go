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
			w.carryOut(w.TookDevices(errors.New("it failed"), w.now))
			return
		}
		w.denied = true
		w.Froze()
		w.carryOut(w.TookDevices(nil, w.now))
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
		w.Park.By, w.Ordered.By, w.Own.By = 0, 0, 0
		for range 100 {
			w.now += parkLeisurePause / 20
			if w.Now != nil {
				w.saves()
			}
			if w.stopped = false; w.taking {
				w.taking, w.denied = false, true
				w.Froze()
				w.carryOut(w.TookDevices(nil, w.now))
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

// TestParkDeadlines: which deadline counts, of which orders.
func TestParkDeadlines(t *testing.T) {
	type order struct {
		at, number, within uint32 // seconds, number, milliseconds
		park, suspended    bool
	}
	for name, row := range map[string]struct {
		orders []order
		want   time.Duration // 0 = none
	}{
		"none":                         {[]order{{1, 1, 0, true, true}}, 0},
		"one":                          {[]order{{1, 1, 5000, true, true}}, 6 * time.Second},
		"it comes again, late":         {[]order{{1, 1, 5000, true, true}, {3, 1, 5000, true, true}}, 6 * time.Second},
		"again, with less time":        {[]order{{1, 1, 5000, true, true}, {3, 1, 1000, true, true}}, 4 * time.Second},
		"a later one with more time":   {[]order{{1, 1, 5000, true, true}, {3, 2, 9000, true, true}}, 6 * time.Second},
		"a later one with less":        {[]order{{1, 1, 5000, true, true}, {3, 2, 1000, true, true}}, 4 * time.Second},
		"a later one without":          {[]order{{1, 1, 5000, true, true}, {3, 2, 0, true, true}}, 6 * time.Second},
		"an earlier one with less":     {[]order{{1, 2, 5000, true, true}, {3, 1, 1000, true, true}}, 6 * time.Second},
		"lent again":                   {[]order{{1, 1, 5000, true, true}, {3, 2, 0, false, false}}, 0},
		"lent, and taken back":         {[]order{{1, 1, 5000, true, true}, {3, 2, 0, false, false}, {4, 3, 7000, true, true}}, 11 * time.Second},
		"only suspended from now on":   {[]order{{1, 1, 5000, true, true}, {3, 2, 0, false, true}}, 0},
		"park without suspended":       {[]order{{1, 1, 5000, true, false}}, 0},
		"number 0, which is no number": {[]order{{1, 0, 5000, true, true}}, 0},
	} {
		a := &Alloc{Up: true, Ready: true, Lease: lease.Lease{Runs: true}}
		for _, o := range row.orders {
			a.Suspend(&pb.SuspendAlloc{Number: o.number, Suspended: o.suspended, Park: o.park, WithinMs: o.within}, time.Duration(o.at)*time.Second)
		}
		if a.Park.By != row.want {
			t.Errorf("%s: by %v, want %v", name, a.Park.By, row.want)
		}
		if row.want != 0 && (a.Overdue(row.want-1) || !a.Overdue(row.want)) {
			t.Errorf("%s: it is overdue too early or too late", name)
		}
	}
}

// TestLookPark: when an attempt to park begins, in each step of a save and of the
// allocation's life.
func TestLookPark(t *testing.T) {
	const now = time.Minute
	again, park := Do{Again: true}, Do{Park: true}
	for name, row := range map[string]struct {
		change func(*Alloc)
		want   Do
	}{
		"it runs":                  {func(*Alloc) {}, park},
		"it is frozen":             {func(a *Alloc) { a.Lease.Runs = false }, park},
		"it is not up":             {func(a *Alloc) { a.Up = false }, Do{}},
		"it is restored and waits": {func(a *Alloc) { a.Up, a.Awaits = false, true }, park},
		"it ends":                  {func(a *Alloc) { a.Ending = true }, Do{}},
		"a save begins":            {func(a *Alloc) { a.Now = &Save{Step: StepMark} }, Do{Abort: ErrReclaimed, Again: true}},
		"its GPUs are emptied":     {func(a *Alloc) { a.Now = &Save{Step: StepPark} }, Do{Abort: ErrReclaimed, Again: true}},
		"it is dumped":             {func(a *Alloc) { a.Now = &Save{Step: StepDump} }, again},
		"it resumes":               {func(a *Alloc) { a.Now = &Save{Step: StepResume} }, again},
		"its image is packed":      {func(a *Alloc) { a.Now = &Save{Step: StepPack} }, park},
		"a save is undone":         {func(a *Alloc) { a.Now = &Save{Step: StepSettle} }, again},
		"it has just failed":       {func(a *Alloc) { a.Park.Step, a.Park.after = ParkFailed, now+1 }, again},
		"it failed a while ago":    {func(a *Alloc) { a.Park.Step, a.Park.after = ParkFailed, now }, park},
		"it is parked":             {func(a *Alloc) { a.Park.Step = Parked }, Do{}},
		"lent in mid-park":         {func(a *Alloc) { a.Park.Step, a.Park.Wanted = ParkTaking, false }, Do{}},
		"lent after that":          {func(a *Alloc) { a.Park.Step, a.Park.Wanted = ParkFailed, false }, Do{Unpark: true}},
		"lent when it was parked":  {func(a *Alloc) { a.Park.Step, a.Park.Wanted = Parked, false }, Do{Unpark: true}},
		"lent before it was":       {func(a *Alloc) { a.Park.Wanted = false }, Do{}},
	} {
		a := &Alloc{Up: true, Ready: true, Lease: lease.Lease{Runs: true, Suspended: true}, Park: Park{Wanted: true}}
		row.change(a)
		if got := a.LookPark(now); got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

// TestSaveOfParked: a job that is parked is saved as it stands. It gets its devices back when it is
// frozen for the save, or the save is over.
func TestSaveOfParked(t *testing.T) {
	for step := StepMark; step < StepOver; step++ {
		a := &Alloc{Up: true, Ready: true, Released: true, Park: Park{Wanted: true, Step: Parked}}
		if do := a.Save(&pb.SaveAlloc{Number: 1}); do.Begin == nil || a.MaySave() != nil || !a.Now.Parked {
			t.Fatalf("it is refused: %+v, %v", do, a.MaySave())
		}
		a.Now.Step = step
		if do := a.LookPark(time.Minute); do != (Do{}) {
			t.Errorf("%s: %+v", step, do)
		}
		a.Park.Wanted = false
		want := Do{Unpark: true}
		if step < StepDump {
			want = Do{Abort: ErrAborted, Again: true}
		}
		if do := a.LookPark(time.Minute); do != want {
			t.Errorf("%s, lent: %+v, want %+v", step, do, want)
		}
	}
}

// TestNoSaveWhileParking: a save that is ordered while the devices are being taken or given
// is refused, and that says nothing of the job.
func TestNoSaveWhileParking(t *testing.T) {
	a := &Alloc{Up: true, Ready: true, Released: true, Park: Park{Wanted: true}}
	for _, park := range []Park{{Step: ParkFailed}, {Step: ParkGiving}, {Wanted: true, Step: ParkTaking}} {
		a.Park = park
		if err := a.MaySave(); !errors.Is(err, ErrReclaimed) {
			t.Errorf("%s: refused with %v", park.Step, err)
		}
	}
	a.Park = Park{Wanted: true}
	if err := a.MaySave(); !errors.Is(err, ErrReclaimed) || checkpointableAfter(err) != pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED {
		t.Errorf("refused with %v", err)
	}
}

// TestLeaseAndPark: what lease and suspension ask for while the devices are taken and given.
func TestLeaseAndPark(t *testing.T) {
	const now = time.Minute
	suspended := lease.Lease{Suspended: true, Runs: true}
	for name, row := range map[string]struct {
		lease lease.Lease
		park  Park
		want  Do
	}{
		"what takes them freezes it": {suspended, Park{Wanted: true}, Do{}},
		"it is being frozen":         {suspended, Park{Wanted: true, Step: ParkTaking}, Do{}},
		"that failed":                {suspended, Park{Wanted: true, Step: ParkFailed}, Do{Freeze: true}},
		"suspended without that":     {suspended, Park{Step: ParkHeld}, Do{Freeze: true}},
		"its lease ends meanwhile": {lease.Lease{Fence: true, End: now, Margin: now, Suspended: true, Runs: true},
			Park{Wanted: true, Step: ParkTaking}, Do{Freeze: true, StopPark: ErrLeaseEnded}},
		"lent, and not given back": {lease.Lease{}, Park{Step: ParkGiving}, Do{}},
		"lent and given back":      {lease.Lease{}, Park{Step: ParkHeld}, Do{Thaw: true}},
		"given up by controllers":  {lease.Lease{Fence: true, Gone: true}, Park{Wanted: true, Step: Parked}, Do{Remove: true}},
	} {
		a := &Alloc{Up: true, Lease: row.lease, Park: row.park}
		if got := a.Look(now, false); got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

// TestRunToPark: a suspended job runs for the driver of its GPUs only where nothing else
// holds it.
func TestRunToPark(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Alloc)
		want   bool
	}{
		"suspended":             {func(*Alloc) {}, true},
		"not while it is taken": {func(a *Alloc) { a.Park.Step = Parked }, false},
		"a save holds it":       {func(a *Alloc) { a.Held = true }, false},
		"frozen with its image": {func(a *Alloc) { a.Frozen = &Save{} }, false},
		"restored, and waits":   {func(a *Alloc) { a.Awaits = true }, false},
		"it ends":               {func(a *Alloc) { a.Ending = true }, false},
		"its lease has ended":   {func(a *Alloc) { a.Lease.Fence = true }, false},
	} {
		a := &Alloc{Up: true, Lease: lease.Lease{Suspended: true}, Park: Park{Wanted: true, Step: ParkTaking}}
		row.change(a)
		if got := a.RunToPark(time.Minute); got != row.want || a.Lease.Runs != row.want {
			t.Errorf("%s: %v, runs %v", name, got, a.Lease.Runs)
		}
	}
}

// TestParkCalledOff: an order to resume ends the attempt, and a restored allocation waits for
// its devices.
func TestParkCalledOff(t *testing.T) {
	a := &Alloc{Released: true, Ready: true, Awaits: true}
	a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true}, time.Second)
	if do := a.LookPark(time.Second); !do.Park {
		t.Fatalf("looked %+v", do)
	}
	if do := a.Suspend(&pb.SuspendAlloc{Number: 2}, 2*time.Second); do.StopPark != ErrParkCalledOff || a.Awaited() {
		t.Errorf("called off: %+v, it may run: %v", do, a.Awaited())
	}
	a.TookDevices(ErrParkCalledOff, 2*time.Second)
	if do := a.LookPark(3 * time.Second); !do.Unpark || a.Awaited() {
		t.Errorf("after that: %+v, it may run: %v", do, a.Awaited())
	}
	a.GaveDevices(nil, 3*time.Second)
	if !a.Awaited() {
		t.Error("with its devices it may not run")
	}
}

// TestParkAtLeisure: a job that is parked for nobody has no deadline, and is left alone
// for longer after an attempt that failed; until somebody waits for its hardware.
func TestParkAtLeisure(t *testing.T) {
	var a Alloc
	a.Up, a.Ready = true, true
	now := time.Hour
	a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true}, now)
	if do := a.LookPark(now); !do.Park || !a.AtLeisure() {
		t.Fatalf("it is not parked: %+v", do)
	}
	a.TookDevices(errors.New("the driver refuses"), now)
	if a.Overdue(now + 1000*time.Hour) {
		t.Error("it is killed, though nobody waits")
	}
	if do := a.LookPark(now + parkLeisurePause - time.Second); do.Park || !do.Again {
		t.Errorf("it is tried again too soon: %+v", do)
	}
	a.Suspend(&pb.SuspendAlloc{Number: 2, Suspended: true, Park: true, WithinMs: 10_000}, now+time.Second)
	if do := a.LookPark(now + time.Second + parkPause); !do.Park || a.AtLeisure() {
		t.Errorf("the owner waits, and it is left alone: %+v", do)
	}
	if !a.Overdue(now + 11*time.Second) {
		t.Error("it has no deadline, and the owner waits")
	}
}
