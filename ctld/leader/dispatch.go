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
// depend only on changes that are reported, so this only bounds a fault.
const sweepEvery = 10 * time.Second

// dispatch sends each connected node the orders for the differences between
// what is wanted there and what the node says it has.
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

// Dispatch sends orders to the nodes where something changed. It looks at the
// nodes' reports before it looks at the state. The other way round, an
// allocation whose end is committed in between would look wanted and absent,
// and would be started a second time.
func (l *Leader) Dispatch() {
	type said struct {
		session *session.Session
		allocs  map[session.Alloc]session.Reported
	}
	var nodes []said
	for _, node := range slices.Sorted(maps.Keys(l.dirty.take())) {
		if s := l.sessions.Get(node); s != nil {
			nodes = append(nodes, said{s, s.Allocs()})
		}
	}
	if len(nodes) == 0 {
		return
	}
	view := l.cluster.View()
	for _, node := range nodes {
		l.dispatchTo(view, node.session, node.allocs)
	}
	var asked []*session.Session
	for _, node := range nodes {
		asked = append(asked, node.session)
	}
	l.tellOwners(view, asked)
}

func (l *Leader) dispatchTo(view *state.View, s *session.Session, reported map[session.Alloc]session.Reported) {
	if node, known := view.Node(s.Node()); !known || node.Awaited {
		return // it registered with a state that was replaced, and registers again
	}
	wantedHere := make(map[session.Alloc]bool)
	for _, wanted := range view.WantedAllocs(s.Node()) {
		alloc := session.Alloc{Job: wanted.Job, Epoch: wanted.Epoch}
		wantedHere[alloc] = true
		has, known := reported[alloc]
		if !has.Over {
			l.order(view, s, alloc, wanted, has, known)
		}
	}
	// Allocations that run there and should not: their run is over, or their
	// job forgotten.
	for _, alloc := range slices.SortedFunc(maps.Keys(reported), session.Alloc.Compare) {
		if !wantedHere[alloc] && !reported[alloc].Over {
			s.Order(alloc, session.EndedAtOnce, endAlloc(alloc, 0, false))
		}
	}
	// A run that is no longer wanted never will be again: epochs only rise.
	// Until then an order must not be forgotten, or it would be repeated after
	// its allocation is over.
	s.KeepOrders(func(alloc session.Alloc) bool {
		_, known := reported[alloc]
		return known || wantedHere[alloc]
	})
}

func (l *Leader) order(view *state.View, s *session.Session, alloc session.Alloc, wanted state.WantedAlloc, has session.Reported, known bool) {
	if known && wanted.TimeLimitS != 0 {
		s.SetLimit(alloc, wanted.TimeLimitS)
	}
	if known && wanted.SuspendNumber != 0 {
		s.Suspend(alloc, l.suspendOrder(view, s, alloc, wanted))
	}
	if known {
		orderSave(s, alloc, wanted) // before its end: a frozen job resumes to end
	}
	switch {
	case wanted.Action == state.EndAlloc:
		l.orderEnd(view, s, alloc, wanted)
	case !known && wanted.Successor && !l.restores.canSucceed(l.sessions, view, alloc.Job):
		// The node is asked whether it can resume from the image: see askMoves.
	case !known:
		l.start(view, s, alloc)
	case wanted.ReleaseBatch && has.Ready:
		l.release(view, s, alloc, wanted)
	}
}

func (l *Leader) start(view *state.View, s *session.Session, alloc session.Alloc) {
	if s.Ordered(alloc)&session.Started != 0 {
		return
	}
	order, err := view.StartAlloc(alloc.Job, s.Node())
	if err != nil {
		l.log.Error("a start order cannot be made; cancel the job and report this as a fault of gctld", "job", alloc.Job, "epoch", alloc.Epoch, "node", s.Node(), "error", err)
		return
	}
	l.log.Debug("start ordered", "job", alloc.Job, "epoch", alloc.Epoch, "node", s.Node())
	s.Order(alloc, session.Started, &pb.ControllerMessage{What: &pb.ControllerMessage_StartAlloc{StartAlloc: order}})
}

func endAlloc(alloc session.Alloc, graceS uint32, batchEnded bool) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_EndAlloc{
		EndAlloc: &pb.EndAlloc{Alloc: alloc.ID(), GraceS: graceS, BatchEnded: batchEnded}}}
}
