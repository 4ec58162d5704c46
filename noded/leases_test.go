package noded

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func fencedOrder(job, epoch uint32) *pb.StartAlloc {
	order := startOrder(job, epoch)
	order.LeaseAction = "fence"
	return order
}

func (s *fakeSession) answer(asked *pb.RenewLease, length time.Duration, allocs ...*pb.AllocId) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: &pb.LeaseRenewed{
		SentBoottimeNs: asked.SentBoottimeNs, LeaseMs: uint32(length.Milliseconds()), LeaseMarginMs: 100, Allocs: allocs,
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

// TestOnlyNamedAllocsHaveTheLease, each its own word.
func TestOnlyNamedAllocsHaveTheLease(t *testing.T) {
	_, s, shims, _ := setUp(t)
	before := boottime.Now()
	s.start(fencedOrder(12, 1))
	asked := s.askedAfter(before) // at once, though renewals are far apart
	s.start(fencedOrder(13, 1))
	s.askedAfter(time.Duration(asked.SentBoottimeNs))
	one, two := shims.get(12, 1), shims.get(13, 1)
	s.answer(asked, time.Hour, one.order.Alloc)
	eventually(t, "it is passed on", func() bool { return one.lastRenewal().LeaseMarginMs == 100 && two.lastRenewal().LeaseMarginMs == 100 })
	if got := one.lastRenewal().Allocs; len(got) != 1 || registry.KeyOf(got[0]) != (registry.Key{Job: 12, Epoch: 1}) {
		t.Errorf("the allocation that is named was told %v", got)
	}
	if got := two.lastRenewal().Allocs; len(got) != 0 {
		t.Errorf("the allocation that is left out was told %v", got)
	}
}

// TestRenewalsDoNotWaitForOrders: an order that waits for process 1 of a job that is frozen
// without a lease is carried out once the lease is renewed.
func TestRenewalsDoNotWaitForOrders(t *testing.T) {
	_, s, shims, _ := setUp(t)
	before := boottime.Now()
	s.start(fencedOrder(12, 1))
	shim := shims.get(12, 1)
	shim.startErr = status.Error(codes.Unavailable, "process 1 does not answer")
	asked := s.askedAfter(before)
	shim.ready()
	s.ready()
	s.release(shim.order.Alloc)
	eventually(t, "the script cannot start", func() bool { return shim.count("start refused") > 0 })
	s.answer(asked, 2*time.Hour, shim.order.Alloc)
	eventually(t, "the script starts", func() bool { return shim.count("start") > 0 })
}

// TestEndDoesNotWaitForOrders: the script of a job that is suspended cannot start, and the
// job ends all the same.
func TestEndDoesNotWaitForOrders(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(startOrder(12, 1))
	shim := shims.get(12, 1)
	shim.startErr = status.Error(codes.Unavailable, "process 1 does not answer")
	shim.ready()
	s.ready()
	s.release(shim.order.Alloc)
	eventually(t, "the script cannot start", func() bool { return shim.count("start refused") > 0 })
	s.end(shim.order.Alloc)
	eventually(t, "the end is ordered", func() bool { return shim.count("end") > 0 })
}

// TestAnswersToNobody: a lease counts only as the answer to this session's own
// request.
func TestAnswersToNobody(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(fencedOrder(12, 1))
	shim := shims.get(12, 1)
	for _, sent := range []time.Duration{1, boottime.Now() + time.Hour} {
		s.answer(&pb.RenewLease{SentBoottimeNs: int64(sent)}, 77*time.Second, shim.order.Alloc)
	}
	s.answer(s.askedAfter(0), time.Hour, shim.order.Alloc)
	eventually(t, "the answer to its own is passed on", func() bool { return shim.lastRenewal().LeaseMs == 3600_000 && len(shim.lastRenewal().Allocs) == 1 })
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
		return len(asked.Frozen) == 1 && registry.KeyOf(asked.Frozen[0]) == registry.Key{Job: 12, Epoch: 1}
	})
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	next := controller.next()
	for _, running := range next.register.Running {
		if running.Frozen != (registry.KeyOf(running.Alloc) == registry.Key{Job: 12, Epoch: 1}) {
			t.Errorf("registered %v", running)
		}
	}
}

// TestSupervisorThatDoesNotFreeze is killed in time, and one whose job is frozen
// is left alone.
func TestSupervisorThatDoesNotFreeze(t *testing.T) {
	controller, s, shims, _ := setUp(t)
	before := boottime.Now()
	s.start(fencedOrder(12, 1))
	s.start(fencedOrder(13, 1))
	s.start(startOrder(14, 1)) // run-on
	stopped, sound, other := shims.get(12, 1), shims.get(13, 1), shims.get(14, 1)
	sound.mu.Lock()
	sound.frozen = true
	sound.mu.Unlock()
	asked := s.askedAfter(before)
	s.answer(asked, time.Second, stopped.order.Alloc, sound.order.Alloc, other.order.Alloc)
	s.waitClosed() // nothing more is answered; the next session hears how it ended
	ended := controller.next().ended()
	if registry.KeyOf(ended.Alloc) != (registry.Key{Job: 12, Epoch: 1}) || ended.Cause != pb.EndCause_END_CAUSE_LEASE_ENDED {
		t.Errorf("ended %v", ended)
	}
	if now := boottime.Now(); now < time.Duration(asked.SentBoottimeNs)+time.Second {
		t.Error("killed before the end of the lease")
	}
	time.Sleep(3 * guardEvery)
	if !sound.Alive() || !other.Alive() {
		t.Error("a supervisor whose job is frozen, or may run, was killed")
	}
}

// TestAdoptedAllocIsGuardedToo: a daemon that has just started knows no lease.
func TestAdoptedAllocIsGuardedToo(t *testing.T) {
	l := adoptLease(new(registry.Registry).Adopt(fencedOrder(12, 1), timeNow()).Lease)
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
