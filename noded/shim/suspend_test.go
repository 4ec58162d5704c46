package shim

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *started) suspend(number uint32, suspended bool) {
	s.b.t.Helper()
	_, err := s.client().Suspend(context.Background(), &pb.SuspendAlloc{Alloc: s.order.Alloc, Number: number, Suspended: suspended})
	must(s.b.t, err)
}

// says waits for word of an order, which each new watcher gets.
func (s *started) says(number uint32, frozen bool) {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(s.b.t, err)
	for {
		event, err := stream.Recv()
		must(s.b.t, err)
		if said := event.GetSuspended(); said != nil && said.Number == number && said.Frozen == frozen {
			return
		}
	}
}

// frozen says that the job writes nothing for a while.
func (s *started) frozen() {
	s.b.t.Helper()
	size := len(s.b.output())
	time.Sleep(200 * time.Millisecond)
	if len(s.b.output()) != size {
		s.b.t.Error("a job wrote that should be frozen")
	}
}

func (s *started) writes() {
	s.b.t.Helper()
	size := len(s.b.output())
	eventually(s.b.t, "the job writes", func() bool { return len(s.b.output()) > size })
}

// counting is a job that writes for ever, from a process of its own too, and
// says when a TERM reaches it.
func (b *bed) counting() *pb.StartAlloc {
	return b.order("trap 'echo term; exit 3' TERM; (while :; do echo y; sleep 0.01; done) & while :; do echo x; sleep 0.01; done")
}

func TestSuspendAndResume(t *testing.T) {
	b := newBed(t)
	order := b.counting()
	order.TimeLimitS = 4
	s := b.launch(order)
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.suspend(1, true)
	s.says(1, true)
	s.frozen()
	// Signals are refused rather than kept waiting; orders of before count no more.
	if _, err := s.client().Signal(context.Background(), &pb.SignalAlloc{Signal: 10}); status.Convert(err).Message() != "the job is suspended" {
		t.Errorf("a signal: %v", err)
	}
	s.suspend(1, false)
	s.suspend(0, false)
	s.frozen()
	time.Sleep(4 * time.Second) // which are not counted
	s.frozen()
	s.suspend(4, false)
	s.says(4, false)
	s.writes()
	s.suspend(3, true)
	s.writes()
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_TIME_LIMIT || !strings.Contains(b.output(), "term") {
		t.Errorf("ended %v", result)
	}
}

// TestSuspendedIsCancelled: it runs to end, with its time for that.
func TestSuspendedIsCancelled(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.counting())
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.suspend(1, true)
	s.says(1, true)
	_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 20})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 3, 0)
	if !strings.Contains(b.output(), "term") {
		t.Error("the job had no TERM")
	}
}

// TestSuspendedAndFenced: a job runs when neither holds it, whichever came first
// or goes first.
func TestSuspendedAndFenced(t *testing.T) {
	t.Run("suspended first", func(t *testing.T) {
		b := newBed(t)
		s := b.launch(b.ticking())
		s.goesOn(time.Minute)
		s.suspend(1, true)
		s.says(1, true)
		s.grant(time.Minute, true)
		s.frozen()
		s.suspend(2, false)
		s.writes()
		s.suspend(3, true)
		s.says(3, true)
		_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 20})
		must(t, err)
		wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 3, 0)
	})
	t.Run("the lease ends first", func(t *testing.T) {
		b := newBed(t)
		s := b.launch(b.ticking())
		s.goesOn(300 * time.Millisecond)
		s.freezes()
		s.suspend(1, true)
		s.says(1, true)
		s.grant(time.Minute, true)
		s.frozen()
		s.suspend(2, false)
		s.writes()
		s.grant(time.Minute, false) // it is not the node's any more
		if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_LEASE_ENDED || strings.Contains(b.output(), "term") {
			t.Errorf("ended %v", result)
		}
	})
}
