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
// of the steps is what makes it safe: a majority says, after the request was
// sent, that this controller leads; its term is open, so that nobody counts
// time for an earlier one any more; the lease is noted, so that nobody ends it
// before its time; and only then is looked at what is the node's.
func (s *Server) grant(ctx context.Context, node string, arrived time.Time) (*pb.LeaseRenewed, error) {
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
		LeaseMs: policy.LeaseS * 1000, LeaseMarginMs: policy.MarginS() * 1000, Parts: s.cluster.View().PartsOn(node),
	}, nil
}

// asked is a node's request for a lease.
type asked struct {
	renew   *pb.RenewLease
	arrived time.Time
}

// renewals is the request that waits: a newer one takes an older one's place.
type renewals chan asked

// put replaces what waits. There is one caller.
func (r renewals) put(next asked) {
	select {
	case <-r:
	default:
	}
	r <- next
}

// renew answers a node's requests for a lease, beside all else that it says: a
// controller that can not reach a majority takes time to notice. Then it
// answers nothing and ends the session, for the node to find another.
func (s *Server) renew(ctx context.Context, link *session.Session, waiting renewals) {
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

func partsOf(ids []*pb.PartId) []session.Part {
	parts := make([]session.Part, len(ids))
	for i, id := range ids {
		parts[i] = session.PartOf(id)
	}
	return parts
}
