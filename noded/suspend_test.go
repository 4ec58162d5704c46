package noded

import (
	"testing"

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
