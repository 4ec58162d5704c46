package leader

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// release lets an allocation begin with the others of its job. If the job has a network
// between its nodes, each is told where the others are. That is soft state: a node says
// it to each controller that it connects to, and it does not change in a run.
func (l *Leader) release(view *state.View, s *session.Session, alloc session.Alloc, wanted state.WantedAlloc) {
	if s.Ordered(alloc)&session.Released != 0 {
		return
	}
	order := &pb.ReleaseBatch{Alloc: alloc.ID()}
	for index, node := range wanted.NetworkNodes {
		if node == s.Node() {
			continue
		}
		end := l.networkEnd(node, alloc)
		if end == nil {
			return // that node is away, and it is sent when it is back
		}
		order.NetworkPeers = append(order.NetworkPeers, &pb.NetworkPeer{Index: uint32(index), Address: view.NodeAddress(node), End: end})
	}
	s.Order(alloc, session.Released, &pb.ControllerMessage{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: order}})
}

// networkEnd is what a node has said of an allocation's end of its job's network; nil =
// nothing yet.
func (l *Leader) networkEnd(node string, alloc session.Alloc) *pb.NetworkEnd {
	if s := l.sessions.Get(node); s != nil {
		return s.Allocs()[alloc].Network
	}
	return nil
}
