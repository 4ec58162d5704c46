package noded

import (
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *fakeShim) saysSuspended(number uint32, frozen bool) {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: &pb.AllocSuspended{
		Alloc: &pb.AllocId{Job: 99}, Number: number, Frozen: frozen}}})
}

// TestSuspend: an order reaches the supervisor, and what that says of it the
// controller, under the allocation's own name; also the next controller, and that of
// a daemon which has just started.
func TestSuspend(t *testing.T) {
	c, s, shims, n := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	for _, alloc := range []*pb.AllocId{{Job: 1, Epoch: 1}, order.Alloc} {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{
			SuspendAlloc: &pb.SuspendAlloc{Alloc: alloc, Number: 3, Suspended: true}}})
	}
	eventually(t, "the supervisor has the order", func() bool { return shim.count("suspend 3 true") == 1 })
	for _, said := range []*pb.AllocSuspended{{Number: 3}, {Number: 3, Frozen: true}, {Number: 4}} {
		shim.saysSuspended(said.Number, said.Frozen)
		got := expect(s, "AllocSuspended", (*pb.NodeMessage).GetAllocSuspended)
		if got.Number != said.Number || got.Frozen != said.Frozen || got.Alloc.Job != 12 || got.Alloc.Epoch != 1 {
			t.Errorf("%v is told as %v", said, got)
		}
	}
	shim.saysSuspended(5, true)
	expect(s, "AllocSuspended", (*pb.NodeMessage).GetAllocSuspended)
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	next := c.next()
	if running := next.register.Running; len(running) != 1 || running[0].SuspendNumber != 5 || !running[0].Suspended {
		t.Errorf("registered %v", running)
	}
	n.stop()
	startNode(t, n.socket, shims)
	next = c.next()
	eventually(t, "the next daemon says so too", func() bool {
		if running := next.register.Running; len(running) == 1 && running[0].SuspendNumber == 5 {
			return true
		}
		said := expect(next, "AllocSuspended", (*pb.NodeMessage).GetAllocSuspended)
		return said.Number == 5 && said.Frozen
	})
}

// TestPark: an order to park reaches the supervisor with its deadline, and what that says
// of it the controller; a supervisor that says nothing is killed a while after the deadline.
func TestPark(t *testing.T) {
	c, s, shims, n := setUp(t)
	for job := uint32(12); job < 15; job++ {
		s.start(startOrder(job, 1))
		shims.get(job, 1).ready()
		s.ready()
	}
	parks, stopped, suspended := shims.get(12, 1), shims.get(13, 1), shims.get(14, 1)
	asked := time.Now()
	for _, shim := range []*fakeShim{parks, stopped, suspended} {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{
			SuspendAlloc: &pb.SuspendAlloc{Alloc: shim.order.Alloc, Number: 3, Suspended: true, Park: shim != suspended, WithinMs: 500}}})
	}
	for _, shim := range []*fakeShim{parks, stopped} {
		eventually(t, "the supervisor has the order", func() bool { return shim.count("suspend 3 true park within true") == 1 })
	}
	parks.event(&pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: &pb.AllocSuspended{Number: 3, Frozen: true, Parked: true, Freed: &pb.HardwareFreed{TookMs: 210}}}})
	got := expect(s, "AllocSuspended", (*pb.NodeMessage).GetAllocSuspended)
	if !got.Parked || got.Freed.GetTookMs() != 210 || got.Alloc.Job != 12 {
		t.Errorf("told %v", got)
	}
	ended := s.ended()
	if ended.Alloc.Job != 13 || ended.Cause != pb.EndCause_END_CAUSE_RECLAIMED || ended.Freed.GetTookMs() == 0 || time.Since(asked) < 250*time.Millisecond {
		t.Errorf("after %v: ended %v", time.Since(asked), ended)
	}
	time.Sleep(3 * guardEvery)
	if !parks.Alive() || !suspended.Alive() {
		t.Error("a supervisor was killed that had parked its job, or need not")
	}
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	for _, running := range c.next().register.Running {
		if running.Parked != (running.Alloc.Job == 12) {
			t.Errorf("registered %v", running)
		}
	}
}
