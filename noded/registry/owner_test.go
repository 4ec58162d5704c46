package registry

import (
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// word is what an owner says of guests, which job 1 is none of.
type word struct {
	number uint64
	held   bool
}

func (w *word) of(order *pb.StartAlloc, _ Time) *pb.HoldAlloc {
	said := &pb.HoldAlloc{Number: w.number, Held: w.held && order.GetAlloc().GetJob() != 1}
	if said.Held {
		said.WithinMs = 5000
	}
	return said
}

func orderedStart(job uint32) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_StartAlloc{StartAlloc: &pb.StartAlloc{Alloc: &pb.AllocId{Job: job, Epoch: 1}}}}
}

// TestOwnersWord: each word goes to the guests once, and to nobody else; a guest is not started
// meanwhile.
func TestOwnersWord(t *testing.T) {
	w := &word{}
	r := Registry{Most: 10, Remembers: 10, Word: w.of}
	for _, job := range []uint32{1, 2} {
		if do, _ := r.Obey(orderedStart(job), Time{}); do.New == nil {
			t.Fatalf("job %d is not started: %+v", job, do)
		}
	}
	if do := r.Said(Time{}); len(do.Pass) != 0 {
		t.Errorf("nothing was said, and %d are told", len(do.Pass))
	}
	*w = word{7, true}
	do := r.Said(Time{Boot: time.Second})
	if len(do.Pass) != 1 || do.Pass[0].Alloc.Key.Job != 2 || !do.Pass[0].Hold.GetHeld() || do.Pass[0].Hold.GetNumber() != 7 {
		t.Fatalf("held: %+v", do.Pass)
	}
	if do := r.Said(Time{Boot: 2 * time.Second}); len(do.Pass) != 0 {
		t.Error("the same word is passed on twice")
	}
	if do, _ := r.Obey(orderedStart(1), Time{}); len(do.Send) != 0 || do.Refused != nil {
		t.Errorf("the owner's own job: %+v", do)
	}
	do, _ = r.Obey(orderedStart(3), Time{})
	if do.New != nil || len(do.Send) != 1 || do.Send[0].GetAllocEnded().GetCause() != pb.EndCause_END_CAUSE_RECLAIMED {
		t.Errorf("a guest is started: %+v", do)
	}
	p := r.Get(Key{2, 1})
	if late := r.Overdue(Time{Boot: 6*time.Second - 250*time.Millisecond - 1}); len(late) != 0 {
		t.Error("it is overdue too early")
	}
	if late := r.Overdue(Time{Boot: 6*time.Second - 250*time.Millisecond}); len(late) != 1 || late[0] != p {
		t.Errorf("a supervisor that does nothing is left alone: %v", late)
	}
	r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Hold{Hold: &pb.ShimHold{Number: 7, Held: true, Parked: true, Freed: &pb.HardwareFreed{TookMs: 3}}}})
	if late := r.Overdue(Time{Boot: time.Hour}); len(late) != 0 || !p.Free() {
		t.Error("it is parked, and overdue")
	}
	*w = word{8, false}
	if do := r.Said(Time{Boot: time.Hour}); len(do.Pass) != 1 || do.Pass[0].Hold.GetHeld() {
		t.Errorf("lent again: %+v", do.Pass)
	}
	if do, _ := r.Obey(orderedStart(3), Time{}); do.New == nil {
		t.Error("lent again, and nothing starts")
	}
}

// TestOwnersWordAfterRestart: a new daemon tells a supervisor what was said since the word that it
// heard, also if that was that the node is lent again.
func TestOwnersWordAfterRestart(t *testing.T) {
	w := &word{8, false}
	r := Registry{Most: 10, Remembers: 10, Word: w.of}
	p := r.Adopt(&pb.StartAlloc{Alloc: &pb.AllocId{Job: 2, Epoch: 1}}, Time{})
	r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Hold{Hold: &pb.ShimHold{Number: 7, Held: true, Parked: true}}})
	if do := r.Said(Time{}); len(do.Pass) != 1 || do.Pass[0].Hold.GetHeld() || do.Pass[0].Hold.GetNumber() != 8 {
		t.Errorf("it stays parked: %+v", do.Pass)
	}
}

// TestMeasuresParks: each park that somebody waited for is measured once, whoever asked for
// it; one at leisure is not.
func TestMeasuresParks(t *testing.T) {
	w := &word{}
	r := Registry{Most: 10, Remembers: 10, Word: w.of}
	if _, mine := r.Obey(orderedStart(2), Time{}); !mine {
		t.Fatal("not obeyed")
	}
	p := r.Get(Key{2, 1})
	suspend := func(number, within uint32) {
		t.Helper()
		order := &pb.SuspendAlloc{Alloc: p.Key.Message(), Number: number, Suspended: true, Park: true, WithinMs: within}
		if _, mine := r.Obey(&pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{SuspendAlloc: order}}, Time{Boot: time.Second}); !mine {
			t.Fatal("not obeyed")
		}
	}
	hold := func(parked bool) *ParkMeasured {
		return r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Hold{Hold: &pb.ShimHold{Number: 7, Held: parked, Parked: parked, Freed: &pb.HardwareFreed{TookMs: 30}, GpuBytes: 5}}}).Measured
	}
	parked := func(number uint32, parked bool) *ParkMeasured {
		return r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: &pb.AllocSuspended{Alloc: p.Key.Message(), Number: number, Frozen: parked, Parked: parked, Freed: &pb.HardwareFreed{TookMs: 40}}}}).Measured
	}
	*w = word{7, true}
	r.Said(Time{Boot: time.Second})
	if m := hold(true); m == nil || m.Took != 30*time.Millisecond || m.Size.GPUBytes != 5 {
		t.Errorf("parked for the owner here: %+v", m)
	}
	if m := hold(true); m != nil {
		t.Errorf("told again: %+v", m)
	}
	suspend(1, 1000)
	if m := parked(1, true); m != nil {
		t.Errorf("the controllers ask for what is parked: %+v", m)
	}
	hold(false)
	parked(1, false)
	suspend(3, 1000)
	if m := parked(3, true); m == nil || m.Took != 40*time.Millisecond {
		t.Errorf("parked for the controllers: %+v", m)
	}
	parked(3, false)
	p.Park.By, p.Hold.By = 0, 0
	suspend(4, 0)
	if m := parked(4, true); m != nil {
		t.Errorf("parked at leisure: %+v", m)
	}
}

// TestOrderToParkWaits: what an order was on the way for, or waited for its supervisor, is lost
// to the job, not to the owner; and by how much it came too late is noted.
func TestOrderToParkWaits(t *testing.T) {
	order := func(within, late uint32, by time.Duration) *pb.SuspendAlloc {
		return &pb.SuspendAlloc{Number: 1, Suspended: true, Park: true, WithinMs: within, LateMs: late, ByBoottimeNs: int64(by)}
	}
	for since, want := range map[time.Duration][2]uint32{0: {5000, 0}, time.Second: {4000, 0}, time.Minute: {1, 55_000}} {
		if got := Waited(order(5000, 0, 0), since); got.WithinMs != want[0] || got.LateMs != want[1] {
			t.Errorf("after %v: %v", since, got)
		}
		if got := WaitedHold(&pb.HoldAlloc{Held: true, WithinMs: 5000}, since); got.WithinMs != want[0] || got.LateMs != want[1] {
			t.Errorf("a word of the owner after %v: %v", since, got)
		}
	}
	if Waited(&pb.SuspendAlloc{}, time.Minute).WithinMs != 0 || WaitedHold(&pb.HoldAlloc{}, time.Minute).WithinMs != 0 {
		t.Error("one without a deadline has one")
	}
	now := Time{Boot: time.Hour}
	for name, row := range map[string]struct {
		order        *pb.SuspendAlloc
		within, late uint32
	}{
		"its controller does not know the clock": {order(5000, 0, 0), 5000, 0},
		"it came at once":                        {order(5000, 0, now.Boot+5*time.Second), 5000, 0},
		"it was on the way for a second":         {order(5000, 0, now.Boot+4*time.Second), 4000, 0},
		"for longer than there was":              {order(5000, 0, now.Boot-2*time.Second), 1, 2000},
		"it was late when it was sent":           {order(1, 3000, now.Boot-3*time.Second), 1, 3000},
		"the clocks disagree":                    {order(5000, 0, now.Boot+time.Hour), 5000, 0},
	} {
		if got := came(row.order, now); got.WithinMs != row.within || got.LateMs != row.late {
			t.Errorf("%s: %v", name, got)
		}
	}
}
