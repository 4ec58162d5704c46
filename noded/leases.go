package noded

import (
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// adoptPatience is how long the supervisor of a part that was found may keep
// its job running before a lease for it is heard of.
const adoptPatience = 20 * time.Second

// guardEvery is how often the daemon looks after supervisors that should have
// frozen their jobs. A variable for tests.
var guardEvery = 100 * time.Millisecond

// newLease is that of a part that has just come here. The supervisor keeps its
// own; this one is to notice that it does not.
func newLease(order *pb.StartPart) lease.Lease {
	return lease.Lease{Fence: order.LeaseAction == lease.Fence, Begun: boottime.Now(), Runs: true}
}

// adoptLease is that of a part that an earlier daemon left.
func adoptLease(order *pb.StartPart) lease.Lease {
	l := newLease(order)
	l.End, l.Margin = l.Begun, 2*adoptPatience
	return l
}

// renewal asks for the lease. The caller holds a.mu.
func (a *agent) renewal() *pb.NodeMessage {
	message := &pb.RenewLease{SentBoottimeNs: int64(boottime.Now())}
	for _, p := range a.sortedParts() {
		if p.frozen && !p.life.Over() {
			message.Frozen = append(message.Frozen, p.key.message())
		}
	}
	return &pb.NodeMessage{What: &pb.NodeMessage_RenewLease{RenewLease: message}}
}

// leaseRenewed passes the answer of a controller on to all supervisors, which
// keep the leases themselves: to each whether it is named.
func (a *agent) leaseRenewed(s *session, renewed *pb.LeaseRenewed) {
	sent := time.Duration(renewed.SentBoottimeNs)
	if sent < s.opened || sent > boottime.Now() {
		a.log.Error("a controller answered a request for a lease that this node did not send in this session; the answer is ignored, report this as a fault of gctld")
		return
	}
	s.renewed()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = renewed
	if s.leaseMS != 0 && s.leaseMS != renewed.LeaseMs {
		select {
		case <-s.lengths:
		default:
		}
		s.lengths <- time.Duration(renewed.LeaseMs) * time.Millisecond
	}
	s.leaseMS = renewed.LeaseMs
	named := make(map[partKey]bool, len(renewed.Parts))
	for _, id := range renewed.Parts {
		named[keyOf(id)] = true
	}
	for _, p := range a.parts {
		if !p.life.Over() {
			p.grant(renewed, named[p.key])
		}
	}
}

// grantLatest gives a supervisor that has just been started the answer that
// came meanwhile.
func (a *agent) grantLatest(p *part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if latest := a.lease; latest != nil {
		p.grant(latest, slices.ContainsFunc(latest.Parts, func(id *pb.PartId) bool { return keyOf(id) == p.key }))
	}
}

// grant takes in whether the part has the lease, and queues that for its
// supervisor. The caller holds agent.mu.
func (p *part) grant(renewed *pb.LeaseRenewed, named bool) {
	own := &pb.LeaseRenewed{SentBoottimeNs: renewed.SentBoottimeNs, LeaseMs: renewed.LeaseMs, LeaseMarginMs: renewed.LeaseMarginMs}
	if named {
		own.Parts = []*pb.PartId{p.key.message()}
	}
	p.lease = p.lease.Granted(lease.Grant{
		Sent:   time.Duration(own.SentBoottimeNs),
		Length: time.Duration(own.LeaseMs) * time.Millisecond,
		Margin: time.Duration(own.LeaseMarginMs) * time.Millisecond,
		Named:  named,
	})
	p.renew(own)
}

// setFrozen notes what a supervisor says of its part.
func (a *agent) setFrozen(p *part, frozen bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.frozen == frozen {
		return
	}
	p.frozen = frozen
	if frozen {
		p.log.Warn("the job is frozen, because its lease has ended: see whether this node reaches the controllers")
	} else {
		p.log.Info("the job goes on with a renewed lease")
	}
}

// guard is the net below the supervisors: one that is stopped, or hangs, does
// not freeze its job when it must. It is killed, and its job dies with it. The
// kernel, not the supervisor, says whether the job stands.
func (a *agent) guard() {
	now := boottime.Now()
	a.mu.Lock()
	var late []*part
	for _, p := range a.parts {
		if p.supervisor != nil && !p.life.Over() && !p.leaseKilled && p.lease.End != 0 && p.lease.At(now) == lease.Remove {
			late = append(late, p)
		}
	}
	a.mu.Unlock()
	for _, p := range late {
		a.mu.Lock()
		s, gone, asked := p.supervisor, p.lease.Gone, p.impatience != nil
		a.mu.Unlock()
		switch stands, err := s.Stands(); {
		case err != nil:
			p.log.Error("cannot see whether a job without a lease stands still: its supervisor is killed", "error", err)
		case stands && gone && !asked:
			// The supervisor ends it; not for ever.
			a.mu.Lock()
			a.expectEnd(p, endPatience)
			a.mu.Unlock()
			continue
		case stands:
			continue
		case gone && now < p.lease.Limit():
			continue // it has only just heard of it
		}
		a.mu.Lock()
		p.leaseKilled = true
		a.mu.Unlock()
		p.log.Warn("the lease of a job has ended and its supervisor did not freeze it: the supervisor is killed, see whether somebody stopped it")
		if err := s.Kill(); err != nil {
			p.log.Error("a supervisor whose job must not run on cannot be killed: find it with ps and kill it", "error", err)
		}
	}
}

// askForLease asks at once, so that a part that has just been ordered need not
// wait for the next renewal. The caller holds a.mu.
func (a *agent) askForLease(p *part) {
	if p.lease.Fence {
		a.sendLocked(a.renewal())
	}
}
