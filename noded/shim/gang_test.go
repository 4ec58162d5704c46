package shim

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// release says that the parts on all nodes are ready.
func (s *started) release() {
	s.b.t.Helper()
	_, err := s.client().StartBatch(context.Background(), &pb.ReleaseBatch{Part: s.order.Part})
	must(s.b.t, err)
}

// TestRestoredGangWaits: a part of several is there, and does not run until all
// are. One that is ended before has not run.
func TestRestoredGangWaits(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	order.Gang = true
	first := b.launch(order)
	first.ready()
	if early := first.save(&pb.SavePart{Number: 1, Then: stand}); early.Image != nil || early.Stands {
		t.Errorf("saved before its script has begun: %v", early)
	}
	first.release()
	b.countsOn()
	saved := first.save(&pb.SavePart{Number: 2, Then: stand})
	wantSaved(t, saved)
	_, err := first.client().End(context.Background(), endOrder(first))
	must(t, err)
	first.wait()
	at := b.counts()

	second := b.launch(restored(order, saved.Image))
	second.ready()
	time.Sleep(100 * time.Millisecond)
	if now := b.counts(); now != at {
		t.Fatalf("it ran before the others were there: %d, %d", at, now)
	}
	second.suspend(1, true)
	second.says(1, true)
	second.release()
	time.Sleep(100 * time.Millisecond)
	if now := b.counts(); now != at {
		t.Fatalf("it ran though it is suspended: %d, %d", at, now)
	}
	if early := second.save(&pb.SavePart{Number: 2, Then: stand}); early.Image != nil || early.Stands {
		t.Errorf("what has not run is saved: %v", early)
	}
	_, err = second.client().End(context.Background(), &pb.EndPart{Part: second.order.Part, GraceS: 5})
	must(t, err)
	if result := second.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
	if now := b.counts(); now != at {
		t.Errorf("it ran to its end: %d, %d", at, now)
	}

	order.Part.Epoch++
	third := b.launch(restored(order, saved.Image))
	third.ready()
	third.suspend(1, true)
	third.release()
	third.suspend(2, false)
	third.release()
	b.countsOn()
	// Process 1 answers as before.
	_, err = third.client().Signal(context.Background(), &pb.SignalPart{Part: third.order.Part, Signal: 18, Full: true})
	must(t, err)
	wantSaved(t, third.save(&pb.SavePart{Number: 3, Then: goOn}))
	b.countsOn()
	_, err = third.client().End(context.Background(), endOrder(third))
	must(t, err)
	third.wait()
	b.counts()
}

// TestStandingPartHasItsTimeToEnd: one that stood for an image which is not to be
// is let go on first, and gets its TERM.
func TestStandingPartHasItsTimeToEnd(t *testing.T) {
	b := newSavingBed(t)
	s := b.launch(b.order("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"))
	s.ready()
	eventually(t, "it is up", func() bool { return b.output() == "up\n" })
	wantSaved(t, s.save(&pb.SavePart{Number: 1, Then: stand}))
	_, err := s.client().Save(context.Background(), &pb.SavePart{Part: s.order.Part, Number: 1, Abandon: true})
	must(t, err)
	_, err = s.client().End(context.Background(), &pb.EndPart{Part: s.order.Part, GraceS: 60})
	must(t, err)
	if s.wait(); !strings.HasSuffix(b.output(), "bye\n") {
		t.Errorf("it wrote %q", b.output())
	}
}

// TestLateTakeBack: an order that is older than that for which the part stands
// lets nothing go on.
func TestLateTakeBack(t *testing.T) {
	s := newSavedPart(t)
	s.save(1, stand)
	s.told(1)
	s.save(2, stand)
	s.told(2)
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 1, Abandon: true})
	s.stands()
	if saved := s.told(2); !saved.Stands {
		t.Errorf("told %v", saved)
	}
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 2, Abandon: true})
	s.runs()
	if saved := s.told(2); saved.Stands || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
}

// TestLinesInTheWay: while a step has a line to another node the part is not
// saved, and its grade says so; while it is saved no step gets one.
func TestLinesInTheWay(t *testing.T) {
	grade := func(s *savedPart) *pb.PartGrade {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gradeNow()
	}
	s := newSavedPart(t)
	over, err := s.beginLine()
	must(t, err)
	if now := grade(s); now.Grade != pb.SaveGrade_SAVE_GRADE_NOT_NOW || !strings.Contains(now.Reason, "grun") {
		t.Errorf("grade %v", now)
	}
	s.save(1, stand)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "grun") {
		t.Errorf("told %v", saved)
	}
	must(t, s.answers())
	over()
	if now := grade(s); now.Grade != pb.SaveGrade_SAVE_GRADE_LIKELY {
		t.Errorf("grade %v", now)
	}
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(2, goOn)
	<-s.saver.began
	if _, err := s.beginLine(); status.Code(err) != codes.Unavailable {
		t.Errorf("a step gets a line while the job is saved: %v", err)
	}
	close(s.saver.hold)
	if saved := s.told(2); saved.Image == nil {
		t.Errorf("told %v", saved)
	}
}
