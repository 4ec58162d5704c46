package api

import (
	"context"
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

// renewals is the request that waits: a newer one replaces an older one.
type renewals chan asked

// put replaces what waits. There is one caller.
func (r renewals) put(next asked) {
	select {
	case <-r:
	default:
	}
	r <- next
}

// renew answers a node's requests for a lease, in parallel with everything else
// that it says: a controller that cannot reach a majority takes time to notice.
// Then it answers nothing and ends the session, so that the node finds another
// controller.
func (s *NodeLink) renew(ctx context.Context, link *session.Session, waiting renewals) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-link.Done():
			return
		case next := <-waiting:
			granted, err := s.grant(ctx, link.Node(), next.arrived)
			if err != nil {
				link.CutFor(err)
				return
			}
			granted.SentBoottimeNs = next.renew.GetSentBoottimeNs()
			link.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: granted}})
		}
	}
}

func allocsOf(ids []*pb.AllocId) []session.Alloc {
	allocs := make([]session.Alloc, len(ids))
	for i, id := range ids {
		allocs[i] = session.AllocOf(id)
	}
	return allocs
}
