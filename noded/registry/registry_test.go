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
	do := r.Over(p, &pb.AllocEnded{Alloc: &pb.AllocId{Job: 9}, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}, &pb.AllocSaved{Number: 3})
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
	r.Over(first, &pb.AllocEnded{}, nil)
	if earlier, do := r.Earlier(second); earlier != nil || len(do.Pass) != 0 {
		t.Errorf("after its end: %v, %+v", earlier, do)
	}
}
