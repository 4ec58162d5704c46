package supervise

import (
	"errors"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

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
		if kill := row.want - killTime; row.want != 0 && (a.Overdue(kill-1) || !a.Overdue(kill)) {
			t.Errorf("%s: it is killed too early or too late", name)
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
		"it is dumped, in time": {func(a *Alloc) {
			a.Now, a.Park.Since, a.Park.Kill = &Save{Step: StepDump}, now-45*time.Second+1, now+15*time.Second+1
		}, again},
		"it is dumped for too long": {func(a *Alloc) {
			a.Now, a.Park.Since, a.Park.Kill = &Save{Step: StepDump}, now-45*time.Second, now+15*time.Second
		}, Do{Abort: ErrReclaimed, Again: true}},
		"it is dumped, and there is little time": {func(a *Alloc) {
			a.Now, a.Park.Since, a.Park.Kill = &Save{Step: StepDump}, now-250*time.Millisecond, now+250*time.Millisecond
		}, Do{Abort: ErrReclaimed, Again: true}},
		"it resumes":              {func(a *Alloc) { a.Now = &Save{Step: StepResume} }, again},
		"its image is packed":     {func(a *Alloc) { a.Now = &Save{Step: StepPack} }, park},
		"a save is undone":        {func(a *Alloc) { a.Now = &Save{Step: StepSettle} }, again},
		"it has just failed":      {func(a *Alloc) { a.Park.Step, a.Park.after = ParkFailed, now+1 }, again},
		"it failed a while ago":   {func(a *Alloc) { a.Park.Step, a.Park.after = ParkFailed, now }, park},
		"it is parked":            {func(a *Alloc) { a.Park.Step = Parked }, Do{}},
		"lent in mid-park":        {func(a *Alloc) { a.Park.Step, a.Park.Wanted = ParkTaking, false }, Do{}},
		"lent after that":         {func(a *Alloc) { a.Park.Step, a.Park.Wanted = ParkFailed, false }, Do{Unpark: true}},
		"lent when it was parked": {func(a *Alloc) { a.Park.Step, a.Park.Wanted = Parked, false }, Do{Unpark: true}},
		"lent before it was":      {func(a *Alloc) { a.Park.Wanted = false }, Do{}},
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
	a.TookDevices(ErrParkCalledOff, RefusalPasses, 2*time.Second)
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
	a.TookDevices(errors.New("the driver refuses"), RefusalPasses, now)
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

// TestRefusals: what lasts ends a job at once, what passes is tried until the deadline, and
// what a process holds for as long as programs do that only ask about GPUs.
func TestRefusals(t *testing.T) {
	const P, H, L = RefusalPasses, RefusalHeld, RefusalLasts
	for name, row := range map[string]struct {
		within   time.Duration // 0 = nobody waits
		each     time.Duration // an attempt takes so long
		refusals []Refusal
		last     Refusal       // from then on
		want     time.Duration // the latest at which it is known that the job cannot be parked; 0 = never
	}{
		"it lasts":                       {30 * time.Second, time.Millisecond, nil, L, time.Millisecond},
		"it lasts, at leisure":           {0, time.Millisecond, nil, L, 0},
		"it passes, as far as is known":  {30 * time.Second, time.Millisecond, nil, P, 0},
		"first it may pass":              {30 * time.Second, time.Millisecond, []Refusal{P, P}, L, 2*parkPause + 10*time.Millisecond},
		"held":                           {30 * time.Second, time.Millisecond, nil, H, HeldPatience + parkPause + 10*time.Millisecond},
		"held, at leisure":               {0, time.Millisecond, nil, H, 0},
		"held, and there is little time": {2 * time.Second, time.Millisecond, nil, H, 750*time.Millisecond + parkPause + 10*time.Millisecond},
		"each attempt waits for it":      {30 * time.Second, HeldPatience, nil, H, 2*HeldPatience + parkPause},
		"held now and then":              {30 * time.Second, time.Millisecond, []Refusal{H, H, H, H, H, H, P, H, H, H, H, H, H, P}, P, 0},
	} {
		now := time.Hour
		a := &Alloc{Up: true, Ready: true, Lease: lease.Lease{Runs: true}}
		a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true, WithinMs: uint32(row.within.Milliseconds())}, now)
		ends := time.Duration(0)
		for tries := 0; ends == 0 && now < time.Hour+29*time.Second; tries++ {
			for ; !a.LookPark(now).Park; now += parkPause / 10 {
			}
			refusal := row.last
			if tries < len(row.refusals) {
				refusal = row.refusals[tries]
			}
			if now += row.each; a.TookDevices(errors.New("refused"), refusal, now).CannotPark {
				ends = now - time.Hour
			}
		}
		if (ends != 0) != (row.want != 0) || ends > row.want {
			t.Errorf("%s: known after %v, want %v", name, ends, row.want)
		}
		if row.last == H && ends != 0 && ends < min(HeldPatience, row.within/4) {
			t.Errorf("%s: known after %v: a program that only asks has no time to close it", name, ends)
		}
	}
}

// TestKillTime: the KILL comes early enough to be over by the deadline, and leaves at least
// half of the time for parking.
func TestKillTime(t *testing.T) {
	for ms, want := range map[uint32]time.Duration{60_000: 59_500 * time.Millisecond, 1000: 500 * time.Millisecond, 400: 200 * time.Millisecond, 1: time.Millisecond / 2} {
		if d := Within(ms, 0, time.Hour); d.Kill != time.Hour+want || d.By != time.Hour+time.Duration(ms)*time.Millisecond {
			t.Errorf("%d ms: killed %v and over %v later", ms, d.Kill-time.Hour, d.By-time.Hour)
		}
	}
	if late := Within(1, 3000, time.Hour); late.By != time.Hour-3*time.Second || late.Kill != time.Hour+lateTime {
		t.Errorf("three seconds late: %v", late)
	}
	if none := Within(0, 5, time.Hour); none != (Deadline{}) {
		t.Errorf("without a bound: %v", none)
	}
}

// TestMeasured: what the time went to is told, with the slowest part of it and by how much the
// deadline was missed, of a job that is parked and of one that is killed.
func TestMeasured(t *testing.T) {
	const ms = time.Millisecond
	begin := func(lateMS uint32) *Alloc {
		a := &Alloc{Up: true, Ready: true, Lease: lease.Lease{Runs: true}, Saves: Saves{Now: &Save{Step: StepDump}}}
		a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true, WithinMs: 1000, LateMs: lateMS}, time.Hour)
		a.LookPark(time.Hour)
		a.LookPark(time.Hour + 100*ms) // it is dumped all the time
		a.Now = nil
		a.LookPark(time.Hour + 300*ms)
		a.Park.Begins(PartFreeze, time.Hour+300*ms)
		return a
	}
	a := begin(0)
	a.TookDevices(nil, RefusalPasses, time.Hour+400*ms)
	if got := a.Suspended().Freed; got.TookMs != 400 || got.LateMs != 0 || got.Slowest != partTexts[PartSave] || got.SlowestMs != 300 || got.Killed {
		t.Errorf("parked: %v", got)
	}
	if got := a.Park.Killed(time.Hour + 500*ms); got != nil {
		t.Errorf("it is parked, and killed: %v", got)
	}
	a = begin(0)
	a.Park.Begins(PartKill, time.Hour+700*ms)
	if got := a.Park.Killed(time.Hour + 1200*ms); got.TookMs != 1200 || got.LateMs != 200 || got.Slowest != partTexts[PartKill] || got.SlowestMs != 500 || !got.Killed {
		t.Errorf("killed: %v", got)
	}
	a = begin(4000)
	a.TookDevices(nil, RefusalPasses, time.Hour+10*ms)
	if got := a.Suspended().Freed; got.LateMs != 4010 || got.Slowest != partTexts[PartOrder] || got.SlowestMs != 4000 {
		t.Errorf("its order came late: %v", got)
	}
}
