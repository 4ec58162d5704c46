package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/job"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func start(job, epoch uint32) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_StartAlloc{StartAlloc: &pb.StartAlloc{Alloc: &pb.AllocId{Job: job, Epoch: epoch}}}}
}

func end(job, epoch uint32) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_EndAlloc{EndAlloc: &pb.EndAlloc{Alloc: &pb.AllocId{Job: job, Epoch: epoch}}}}
}

func acknowledged(job, epoch uint32) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_EndedAcknowledged{EndedAcknowledged: &pb.EndedAcknowledged{Alloc: &pb.AllocId{Job: job, Epoch: epoch}}}}
}

func obey(t *testing.T, r *Registry, m *pb.ControllerMessage) Do {
	t.Helper()
	do, mine := r.Obey(m, Time{Boot: time.Second})
	if !mine || do.Mistake != nil {
		t.Fatalf("%v: mine %v, %v", m, mine, do.Mistake)
	}
	return do
}

// told is what a Do sends, in short.
func told(do Do) (words string) {
	for _, m := range do.Send {
		switch {
		case m.GetAllocEnded() != nil:
			words += fmt.Sprintf("ended %s ", m.GetAllocEnded().Cause.String()[len("END_CAUSE_"):])
		case m.GetAllocReady() != nil:
			words += "ready "
		case m.GetAllocSaved() != nil:
			words += fmt.Sprintf("saved %d ", m.GetAllocSaved().Number)
		}
	}
	return words
}

// TestOrdersComeTwice: each order of a life comes twice, and late ones come after it.
func TestOrdersComeTwice(t *testing.T) {
	r := &Registry{Most: 2, Remembers: 1}
	p := obey(t, r, start(1, 2)).New
	if do := obey(t, r, start(1, 2)); do.New != nil || told(do) != "" {
		t.Errorf("a second order: %+v", do)
	}
	if do := obey(t, r, start(1, 1)); do.New != nil || do.Refused == nil || told(do) != "ended NODE_FAULT " {
		t.Errorf("an earlier run beside it: %+v", do)
	}
	r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.AllocReady{}}})
	if do := obey(t, r, start(1, 2)); told(do) != "ready " {
		t.Errorf("of what is ready: %+v", do)
	}
	for range 2 {
		if do := obey(t, r, end(1, 2)); len(do.Pass) != 1 || told(do) != "" {
			t.Errorf("an end: %+v", do)
		}
	}
	if do := obey(t, r, acknowledged(1, 2)); do.Done != nil {
		t.Error("it is deleted before it has ended")
	}
	do := r.Over(p, &pb.AllocEnded{Alloc: &pb.AllocId{Job: 9}, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}, &pb.AllocSaved{Number: 3}, Time{})
	if told(do) != "saved 3 ended SUPERVISOR_DIED " || do.Send[1].GetAllocEnded().Alloc.Job != 1 {
		t.Errorf("it is over: %v", do.Send)
	}
	if got := told(Do{Send: r.Unacknowledged()}); got != "saved 3 ended SUPERVISOR_DIED " {
		t.Errorf("repeated: %s", got)
	}
	for _, m := range []*pb.ControllerMessage{start(1, 2), end(1, 2)} {
		if do := obey(t, r, m); do.New != nil || len(do.Pass) != 0 || told(do) != "ended SUPERVISOR_DIED " {
			t.Errorf("%v of what is over: %+v", m, do)
		}
	}
	if first := r.Register(&pb.Register{})[0].GetRegister(); len(first.Running) != 1 || !first.Running[0].Ending {
		t.Errorf("registered %v", first)
	}
	if do := obey(t, r, acknowledged(1, 2)); do.Done != p || obey(t, r, acknowledged(1, 2)).Done != nil {
		t.Error("it is deleted not once")
	}
	if first := r.Register(&pb.Register{})[0].GetRegister(); len(first.Running) != 0 {
		t.Errorf("registered %v", first)
	}
	r.Forget(p, Time{})
	if do := obey(t, r, start(1, 2)); do.New != nil || told(do) != "ended SUPERVISOR_DIED " {
		t.Errorf("of what is gone: %+v", do)
	}
	if do := obey(t, r, end(7, 1)); told(do) != "ended UNKNOWN_ALLOC " {
		t.Errorf("of what never was: %+v", do)
	}
}

// TestBounds: no more allocations than the node holds, and no more results than it
// remembers.
func TestBounds(t *testing.T) {
	r := &Registry{Most: 3, Remembers: 5}
	for number := range uint32(20) {
		do := obey(t, r, start(number+1, 1))
		if number >= 3 {
			if do.New != nil || told(do) != "ended NODE_FAULT " {
				t.Fatalf("allocation %d: %+v", number, do)
			}
			continue
		}
		if _, err := do.New.Life.Move(job.Ended); err != nil {
			t.Fatal(err)
		}
	}
	for number := range uint32(20) {
		p := r.Adopt(&pb.StartAlloc{Alloc: &pb.AllocId{Job: number + 1, Epoch: 1}}, Time{})
		p.Result = &pb.AllocEnded{}
		r.Forget(p, Time{})
		r.Forget(p, Time{})
	}
	if len(r.gone) != 5 || len(r.order) != 5 || r.gone[Key{20, 1}] == nil || r.Len() != 0 {
		t.Errorf("%d results, %d keys, %d allocations", len(r.gone), len(r.order), r.Len())
	}
}

// TestEarlierRunEndsFirst: an allocation waits for an earlier run of its job.
func TestEarlierRunEndsFirst(t *testing.T) {
	r := &Registry{Most: 9, Remembers: 9}
	first, second := obey(t, r, start(1, 1)).New, obey(t, r, start(1, 2)).New
	if earlier, do := r.Earlier(second); earlier != first || len(do.Pass) != 1 || do.Pass[0].Alloc != first {
		t.Errorf("earlier: %v, %+v", earlier, do)
	}
	r.Over(first, &pb.AllocEnded{}, nil, Time{})
	if earlier, do := r.Earlier(second); earlier != nil || len(do.Pass) != 0 {
		t.Errorf("after its end: %v, %+v", earlier, do)
	}
}

func suspend(number uint32, park bool, withinMS uint32) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{SuspendAlloc: &pb.SuspendAlloc{
		Alloc: &pb.AllocId{Job: 1, Epoch: 1}, Number: number, Suspended: true, Park: park, WithinMs: withinMS}}}
}

// TestParked: that an allocation is parked is reported when it is new, and in each registration.
func TestParked(t *testing.T) {
	r := &Registry{Most: 2, Remembers: 1}
	p := obey(t, r, start(1, 1)).New
	said := &pb.AllocSuspended{Alloc: &pb.AllocId{Job: 9}, Number: 3, Frozen: true}
	for _, row := range []struct{ parked, told bool }{{false, true}, {true, true}, {true, false}, {false, true}} {
		said.Parked, said.Freed = row.parked, &pb.HardwareFreed{TookMs: 210}
		do := r.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: said}})
		if (len(do.Send) == 1) != row.told {
			t.Errorf("parked %v: %v is sent", row.parked, do.Send)
		}
		if len(do.Send) == 1 {
			if got := do.Send[0].GetAllocSuspended(); got.Parked != row.parked || got.Freed.GetTookMs() != 210 || got.Alloc.Job != 1 || got.Number != 3 {
				t.Errorf("it is told as %v", got)
			}
		}
		if running := r.Register(&pb.Register{})[0].GetRegister().Running; running[0].Parked != row.parked {
			t.Errorf("registered %v", running)
		}
	}
}

// TestOverdue: a supervisor that has neither parked nor ended its allocation shortly before the
// deadline hangs.
func TestOverdue(t *testing.T) {
	at := func(seconds int) Time { return Time{Boot: time.Duration(seconds) * time.Second} }
	parked := func(p *Alloc) { p.Parked = true }
	for name, row := range map[string]struct {
		orders []*pb.ControllerMessage // one a second, from the first on
		then   func(*Alloc)
		late   int // second from which it is overdue; 0 = never
	}{
		"nothing is asked":          {nil, nil, 0},
		"suspended only":            {[]*pb.ControllerMessage{suspend(1, false, 4000)}, nil, 0},
		"without a deadline":        {[]*pb.ControllerMessage{suspend(1, true, 0)}, nil, 0},
		"parked":                    {[]*pb.ControllerMessage{suspend(1, true, 4000)}, parked, 0},
		"not parked":                {[]*pb.ControllerMessage{suspend(1, true, 4000)}, nil, 5},
		"it comes again":            {[]*pb.ControllerMessage{suspend(1, true, 4000), suspend(1, true, 4000)}, nil, 5},
		"it is brought forward":     {[]*pb.ControllerMessage{suspend(1, true, 9000), suspend(2, true, 1000)}, nil, 3},
		"an earlier order is late":  {[]*pb.ControllerMessage{suspend(2, true, 9000), suspend(1, true, 1000)}, nil, 10},
		"called off":                {[]*pb.ControllerMessage{suspend(1, true, 4000), suspend(2, false, 0)}, nil, 0},
		"called off, late":          {[]*pb.ControllerMessage{suspend(2, true, 4000), suspend(1, false, 0)}, nil, 5},
		"called off, and again":     {[]*pb.ControllerMessage{suspend(1, true, 1000), suspend(2, false, 0), suspend(3, true, 4000)}, nil, 7},
		"its supervisor was killed": {[]*pb.ControllerMessage{suspend(1, true, 4000)}, func(p *Alloc) { p.ParkKilled = true }, 0},
	} {
		r := &Registry{Most: 2, Remembers: 1}
		p := obey(t, r, start(1, 1)).New
		for i, order := range row.orders {
			if do, _ := r.Obey(order, at(i+1)); len(do.Pass) != 1 {
				t.Errorf("%s: %v is not passed on", name, order)
			}
		}
		if row.then != nil {
			row.then(p)
		}
		for second := range 40 {
			if late := len(r.Overdue(at(second))) > 0; late != (row.late != 0 && second >= row.late) {
				t.Errorf("%s: overdue %v after %d seconds", name, late, second)
			}
		}
		r.Over(p, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}, nil, Time{})
		if len(r.Overdue(at(1000))) > 0 {
			t.Errorf("%s: overdue though it is over", name)
		}
		if got := p.Result.Cause; (got == pb.EndCause_END_CAUSE_RECLAIMED) != p.ParkKilled {
			t.Errorf("%s: ended %v", name, got)
		}
	}
}
