package leader

import (
	"context"
	"maps"
	"slices"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// sweepEvery is how often every node is looked at, whatever changed: orders
// depend on nothing that is not told, so this only bounds a fault.
const sweepEvery = 10 * time.Second

// dispatch sends each connected node the orders for what differs between what
// is wanted there and what the node says it has.
func (l *Leader) dispatch(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.dispatchWake:
		case <-sweep.C:
			l.Sweep()
		}
		l.Dispatch()
	}
}

// Dispatch sends the nodes of which something changed their orders. It looks
// at what they say before it looks at the state. The other way round, a part
// whose end is committed in between would look wanted and absent, and be
// started a second time.
func (l *Leader) Dispatch() {
	type said struct {
		session *session.Session
		parts   map[session.Part]session.Reported
	}
	var nodes []said
	for _, node := range slices.Sorted(maps.Keys(l.dirty.take())) {
		if s := l.sessions.Get(node); s != nil {
			nodes = append(nodes, said{s, s.Parts()})
		}
	}
	if len(nodes) == 0 {
		return
	}
	view := l.cluster.View()
	for _, node := range nodes {
		l.dispatchTo(view, node.session, node.parts)
	}
}

func (l *Leader) dispatchTo(view *state.View, s *session.Session, reported map[session.Part]session.Reported) {
	if node, known := view.Node(s.Node()); !known || node.Awaited {
		return // it registered with a state that was replaced, and does so anew
	}
	wantedHere := make(map[session.Part]bool)
	for _, wanted := range view.WantedParts(s.Node()) {
		part := session.Part{Job: wanted.Job, Epoch: wanted.Epoch}
		wantedHere[part] = true
		has, known := reported[part]
		if !has.Over {
			l.order(view, s, part, wanted, has, known)
		}
	}
	// What runs there and should not: its run is over, or its job forgotten.
	for _, part := range slices.SortedFunc(maps.Keys(reported), session.Part.Compare) {
		if !wantedHere[part] && !reported[part].Over {
			s.Order(part, session.EndedAtOnce, endPart(part, 0, false))
		}
	}
	// A run that is not wanted any more never will be again: epochs only
	// rise. Until then an order must not be forgotten, or it were repeated
	// after its part is over.
	s.KeepOrders(func(part session.Part) bool {
		_, known := reported[part]
		return known || wantedHere[part]
	})
}

func (l *Leader) order(view *state.View, s *session.Session, part session.Part, wanted state.WantedPart, has session.Reported, known bool) {
	if known && wanted.TimeLimitS != 0 {
		s.SetLimit(part, wanted.TimeLimitS)
	}
	if known && wanted.SuspendNumber != 0 {
		s.Suspend(part, wanted.SuspendNumber, wanted.Suspended)
	}
	if known {
		orderSave(s, part, wanted) // before its end: what stands goes on to end
	}
	switch {
	case wanted.Action == state.EndPart && wanted.TermAgainS > 0:
		order := endPart(part, wanted.GraceS, wanted.BatchEnded)
		order.GetEndPart().TermAgainS = wanted.TermAgainS
		s.Order(part, session.Warned, order)
	case wanted.Action == state.EndPart:
		s.Order(part, session.Ended, endPart(part, wanted.GraceS, wanted.BatchEnded))
	case !known:
		l.start(view, s, part)
	case wanted.ReleaseBatch && has.Ready:
		s.Order(part, session.Released, &pb.ControllerMessage{What: &pb.ControllerMessage_ReleaseBatch{
			ReleaseBatch: &pb.ReleaseBatch{Part: part.ID()}}})
	}
}

func (l *Leader) start(view *state.View, s *session.Session, part session.Part) {
	if s.Ordered(part)&session.Started != 0 {
		return
	}
	order, err := view.StartPart(part.Job, s.Node())
	if err != nil {
		l.log.Error("a start order can not be made; cancel the job and report this as a fault of gctld", "job", part.Job, "epoch", part.Epoch, "node", s.Node(), "error", err)
		return
	}
	l.log.Debug("start ordered", "job", part.Job, "epoch", part.Epoch, "node", s.Node())
	s.Order(part, session.Started, &pb.ControllerMessage{What: &pb.ControllerMessage_StartPart{StartPart: order}})
}

func endPart(part session.Part, graceS uint32, batchEnded bool) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_EndPart{
		EndPart: &pb.EndPart{Part: part.ID(), GraceS: graceS, BatchEnded: batchEnded}}}
}
