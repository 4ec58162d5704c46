package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// confirmLimit bounds the wait for a majority before a lease is granted. The
// node looks for another controller long before it would matter.
const confirmLimit = 5 * time.Second

// grant grants a node a lease for a request that arrived at a time. The order
// of the steps makes it safe: a majority confirms, after the request was sent,
// that this controller leads; its term is open, so that nobody counts time for
// an earlier term any longer; the lease is noted, so that nobody ends it before
// its time; and only then are the node's allocations read.
func (s *NodeLink) grant(ctx context.Context, node string, arrived time.Time) (*pb.LeaseRenewed, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	if err := s.cluster.Confirm(ctx); err != nil {
		return nil, status.Errorf(codes.Unavailable, "this controller could not confirm that it still leads: %v; connect to another", err)
	}
	if err := s.loops.OpenTerm(ctx); err != nil {
		return nil, status.Errorf(codes.Unavailable, "this controller does not grant leases yet: %v", err)
	}
	policy := s.cluster.View().Policy()
	if !s.loops.Sessions().Grant(node, arrived, time.Duration(policy.LeaseS)*time.Second) {
		return nil, status.Error(codes.Unavailable, session.ErrEnding.Error())
	}
	return &pb.LeaseRenewed{
		LeaseMs: policy.LeaseS * 1000, LeaseMarginMs: policy.MarginS() * 1000, Allocs: s.cluster.View().AllocsOn(node),
	}, nil
}

// asked is a node's request for a lease.
type asked struct {
	renew   *pb.RenewLease
	arrived time.Time
}

// renewals are a node's requests for a lease. One is answered at a time; of those that wait
// only the newest is.
type renewals struct {
	mu   sync.Mutex
	next *asked // nil = none waits
	busy bool   // somebody answers them
}

// put has a request answered in place of one that waits. It reports whether nobody answers
// them: then the caller must have renew do it.
func (r *renewals) put(next asked) (begin bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = &next
	begin = !r.busy
	r.busy = true
	return begin
}

// take is the next to be answered; false when there is none.
func (r *renewals) take() (next asked, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.busy = false
		return asked{}, false
	}
	next, r.next = *r.next, nil
	return next, true
}

// renew answers a node's requests for a lease, in parallel with everything else
// that it says: a controller that cannot reach a majority takes time to notice.
// Then it answers nothing and ends the session, so that the node finds another
// controller. It returns when all are answered: of thousands of nodes, few ask at any time.
func (s *NodeLink) renew(ctx context.Context, link *session.Session, waiting *renewals) {
	for next, ok := waiting.take(); ok; next, ok = waiting.take() {
		granted, err := s.grant(ctx, link.Node(), next.arrived)
		if err != nil {
			link.CutFor(err)
			return
		}
		granted.SentBoottimeNs = next.renew.GetSentBoottimeNs()
		link.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: granted}})
	}
}

func allocsOf(ids []*pb.AllocId) []session.Alloc {
	allocs := make([]session.Alloc, len(ids))
	for i, id := range ids {
		allocs[i] = session.AllocOf(id)
	}
	return allocs
}
