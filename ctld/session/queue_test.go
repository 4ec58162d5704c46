package session

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestQueueKeepsItsOrder: what does not fit among the messages that are ready comes after
// them, in its order, and none is lost.
func TestQueueKeepsItsOrder(t *testing.T) {
	r := NewRegistry(quiet)
	s := connect(r, "n1")
	next(t, s)
	sent, got := uint32(0), uint32(0)
	send := func(count int) {
		for range count {
			sent++
			if !s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: &pb.ReleaseBatch{Alloc: Alloc{Job: sent}.ID()}}}) {
				t.Fatalf("message %d was not queued: %v", sent, s.Cause())
			}
		}
	}
	take := func(count int) {
		for range count {
			got++
			if message := next(t, s); message.GetReleaseBatch().GetAlloc().GetJob() != got {
				t.Fatalf("message %d is %v", got, message)
			}
		}
	}
	send(3 * readyLength)
	take(readyLength / 2)
	send(readyLength)
	take(3*readyLength + readyLength/2)
	if len(s.Out()) != 0 || s.more != nil {
		t.Fatalf("%d messages are left, and %d behind them", len(s.Out()), len(s.more))
	}
	send(queueLength)
	if s.Send(&pb.ControllerMessage{}) {
		t.Fatal("one more was queued than may be")
	}
}
