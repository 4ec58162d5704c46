package leader

import (
	"context"
	"math"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// This file has what the leader does about nodes that their owners take back.
// Deadlines are in log time. An order carries what is left of it when it is sent, and by
// what time of the node's own clock that is over, as far as that can be told.

// endReclaims ends the holds whose time is over, and the reclaims that have none left.
// It returns the state after that. It returns false when that could not be committed.
func (l *Leader) endReclaims(ctx context.Context, view *state.View, now time.Time) (*state.View, bool) {
	due := view.ReclaimsEndMS()
	if due == 0 || due > now.UnixMilli() {
		return view, true
	}
	result, ok := l.propose(ctx, state.EndReclaims{})
	if !ok || len(result.Nodes) == 0 {
		return view, false
	}
	l.log.Info("the time of reclaims is over", "nodes", len(result.Nodes), "first_node", result.Nodes[0])
	return l.cluster.View(), true
}

// leftMS is what is left until a time of the log, in milliseconds; at least 1, since
// 0 would be no bound.
func (l *Leader) leftMS(view *state.View, byMS int64) int64 {
	return max(byMS-logTime(view, l.clock()), 1)
}

// suspendOrder is the order of a number to stop, to park, or to continue. One that is
// parked for nobody has no bound.
func (l *Leader) suspendOrder(view *state.View, s *session.Session, alloc session.Alloc, wanted state.WantedAlloc) *pb.SuspendAlloc {
	order := &pb.SuspendAlloc{Alloc: alloc.ID(), Number: wanted.SuspendNumber, Suspended: wanted.Suspended, Park: wanted.Park}
	if !wanted.Park || wanted.ParkByMS == state.ParkAtLeisureMS {
		return order
	}
	now := l.clock()
	left := wanted.ParkByMS - logTime(view, now)
	order.WithinMs, order.LateMs = uint32(min(max(left, 1), math.MaxUint32)), uint32(min(max(-left, 0), math.MaxUint32))
	order.ByBoottimeNs = max(int64(s.Boottime(now.Add(time.Duration(left)*time.Millisecond))), 0)
	return order
}

// cleanUpMS is how long before the deadline the KILL comes: by the deadline its
// devices have to be free, and a node needs some time for that.
const cleanUpMS = 500

// orderEnd sends the order to end an allocation, with no more time than is left to
// it; again if that has become less.
func (l *Leader) orderEnd(view *state.View, s *session.Session, alloc session.Alloc, wanted state.WantedAlloc) {
	kind, message := session.Ended, endAlloc(alloc, wanted.GraceS, wanted.BatchEnded)
	if wanted.TermAgainS > 0 {
		kind = session.Warned
	}
	order := message.GetEndAlloc()
	order.TermAgainS = wanted.TermAgainS
	if wanted.EndByMS != 0 {
		left := uint32(min(max(l.leftMS(view, wanted.EndByMS)-cleanUpMS, 0)/1000, math.MaxUint32))
		if left < order.GraceS {
			// The last TERM still comes as long before the KILL as for any job.
			kill := order.GraceS - order.TermAgainS
			order.GraceS, order.TermAgainS = left, left-min(left, kill)
		}
	}
	s.OrderBy(alloc, kind, wanted.EndByMS, message)
}
