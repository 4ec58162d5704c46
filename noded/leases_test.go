package noded

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func fencedOrder(job, epoch uint32) *pb.StartPart {
	order := startOrder(job, epoch)
	order.LeaseAction = "fence"
	return order
}

func (s *fakeSession) answer(asked *pb.RenewLease, length time.Duration, parts ...*pb.PartId) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: &pb.LeaseRenewed{
		SentBoottimeNs: asked.SentBoottimeNs, LeaseMs: uint32(length.Milliseconds()), LeaseMarginMs: 100, Parts: parts,
	}}})
}

// askedAfter is the next request for a lease that was sent after some time.
func (s *fakeSession) askedAfter(after time.Duration) *pb.RenewLease {
	s.t.Helper()
	for {
		asked := expect(s, "RenewLease", (*pb.NodeMessage).GetRenewLease)
		if time.Duration(asked.SentBoottimeNs) > after {
			return asked
		}
	}
}

// TestOnlyNamedPartsHaveTheLease, each its own word.
func TestOnlyNamedPartsHaveTheLease(t *testing.T) {
	_, s, shims, _ := setUp(t)
	before := boottime.Now()
	s.start(fencedOrder(12, 1))
	asked := s.askedAfter(before) // at once, though renewals are far apart
	s.start(fencedOrder(13, 1))
	s.askedAfter(time.Duration(asked.SentBoottimeNs))
	one, two := shims.get(12, 1), shims.get(13, 1)
	s.answer(asked, time.Hour, one.order.Part)
	eventually(t, "it is passed on", func() bool { return one.lastRenewal().LeaseMarginMs == 100 && two.lastRenewal().LeaseMarginMs == 100 })
	if got := one.lastRenewal().Parts; len(got) != 1 || keyOf(got[0]) != (partKey{12, 1}) {
		t.Errorf("the part that is named was told %v", got)
	}
	if got := two.lastRenewal().Parts; len(got) != 0 {
		t.Errorf("the part that is left out was told %v", got)
	}
}

// TestAnswersToNobody: a lease counts only as the answer to this session's own
// request.
func TestAnswersToNobody(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(fencedOrder(12, 1))
	shim := shims.get(12, 1)
	for _, sent := range []time.Duration{1, boottime.Now() + time.Hour} {
		s.answer(&pb.RenewLease{SentBoottimeNs: int64(sent)}, 77*time.Second, shim.order.Part)
	}
	s.answer(s.askedAfter(0), time.Hour, shim.order.Part)
	eventually(t, "the answer to its own is passed on", func() bool { return shim.lastRenewal().LeaseMs == 3600_000 && len(shim.lastRenewal().Parts) == 1 })
	for _, renewal := range shim.renewals {
		if renewal.LeaseMs == 77000 {
			t.Errorf("passed on %v", renewal)
		}
	}
}

func TestFrozenIsTold(t *testing.T) {
	controller, s, shims, n := setUp(t)
	s.start(fencedOrder(12, 1))
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	shim.event(&pb.ShimEvent{What: &pb.ShimEvent_Lease{Lease: &pb.ShimLease{Frozen: true}}})
	before := boottime.Now()
	eventually(t, "a renewal tells it", func() bool {
		s.start(fencedOrder(uint32(100+boottime.Now()%1000000), 1)) // which makes the node ask
		asked := s.askedAfter(before)
		return len(asked.Frozen) == 1 && keyOf(asked.Frozen[0]) == partKey{12, 1}
	})
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	next := controller.next()
	for _, running := range next.register.Running {
		if running.Frozen != (keyOf(running.Part) == partKey{12, 1}) {
			t.Errorf("registered %v", running)
		}
	}
}

// TestSupervisorThatDoesNotFreeze is killed in time, and one whose job stands
// is left alone.
func TestSupervisorThatDoesNotFreeze(t *testing.T) {
	controller, s, shims, _ := setUp(t)
	before := boottime.Now()
	s.start(fencedOrder(12, 1))
	s.start(fencedOrder(13, 1))
	s.start(startOrder(14, 1)) // run-on
	stopped, sound, other := shims.get(12, 1), shims.get(13, 1), shims.get(14, 1)
	sound.mu.Lock()
	sound.stands = true
	sound.mu.Unlock()
	asked := s.askedAfter(before)
	s.answer(asked, time.Second, stopped.order.Part, sound.order.Part, other.order.Part)
	s.waitClosed() // nothing more is answered; the next session hears how it ended
	ended := controller.next().ended()
	if keyOf(ended.Part) != (partKey{12, 1}) || ended.Cause != pb.EndCause_END_CAUSE_LEASE_ENDED {
		t.Errorf("ended %v", ended)
	}
	if now := boottime.Now(); now < time.Duration(asked.SentBoottimeNs)+time.Second {
		t.Error("killed before the end of the lease")
	}
	time.Sleep(3 * guardEvery)
	if !sound.Alive() || !other.Alive() {
		t.Error("a supervisor whose job stands, or may run, was killed")
	}
}

// TestAdoptedPartIsGuardedToo: a daemon that has just started knows no lease.
func TestAdoptedPartIsGuardedToo(t *testing.T) {
	l := adoptLease(fencedOrder(12, 1))
	if at := l.Begun + adoptPatience - 1; l.At(at) == lease.Remove {
		t.Error("not even a moment")
	}
	if at := l.Begun + adoptPatience; l.At(at) != lease.Remove {
		t.Errorf("at %v: %v", at, l.At(at))
	}
}

// TestShorterLeaseIsRenewedMoreOften, without a new session.
func TestShorterLeaseIsRenewedMoreOften(t *testing.T) {
	_, s, _, _ := setUp(t) // renewals are at least a minute apart
	s.answer(s.askedAfter(0), 24*time.Second)
	s.askedAfter(0)
}
