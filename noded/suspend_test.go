package noded

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *fakeShim) saysSuspended(number uint32, stands bool) {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: &pb.PartSuspended{
		Part: &pb.PartId{Job: 99}, Number: number, Stands: stands}}})
}

// TestSuspend: an order reaches the supervisor, and what that says of it the
// controller, under the part's own name; also the next controller, and that of
// a daemon which has just started.
func TestSuspend(t *testing.T) {
	c, s, shims, n := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	for _, part := range []*pb.PartId{{Job: 1, Epoch: 1}, order.Part} {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SuspendPart{
			SuspendPart: &pb.SuspendPart{Part: part, Number: 3, Suspended: true}}})
	}
	eventually(t, "the supervisor has the order", func() bool { return shim.count("suspend 3 true") == 1 })
	for _, said := range []*pb.PartSuspended{{Number: 3}, {Number: 3, Stands: true}, {Number: 4}} {
		shim.saysSuspended(said.Number, said.Stands)
		got := expect(s, "PartSuspended", (*pb.NodeMessage).GetPartSuspended)
		if got.Number != said.Number || got.Stands != said.Stands || got.Part.Job != 12 || got.Part.Epoch != 1 {
			t.Errorf("%v is told as %v", said, got)
		}
	}
	shim.saysSuspended(5, true)
	expect(s, "PartSuspended", (*pb.NodeMessage).GetPartSuspended)
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	next := c.next()
	if running := next.register.Running; len(running) != 1 || running[0].SuspendNumber != 5 || !running[0].Stands {
		t.Errorf("registered %v", running)
	}
	n.stop()
	startNode(t, n.socket, shims)
	next = c.next()
	eventually(t, "the next daemon says so too", func() bool {
		if running := next.register.Running; len(running) == 1 && running[0].SuspendNumber == 5 {
			return true
		}
		said := expect(next, "PartSuspended", (*pb.NodeMessage).GetPartSuspended)
		return said.Number == 5 && said.Stands
	})
}
