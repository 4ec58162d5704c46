package noded

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// adoptPatience is how long the supervisor of an allocation that was found may keep
// its job running before a lease for it is heard of.
const adoptPatience = 20 * time.Second

// guardEvery is how often the daemon looks after supervisors that should have
// frozen their jobs. A variable for tests.
var guardEvery = 100 * time.Millisecond

// adoptLease is that of an allocation that an earlier daemon left.
func adoptLease(l lease.Lease) lease.Lease {
	l.End, l.Margin = l.Begun, 2*adoptPatience
	return l
}

// leaseRenewed passes the answer of a controller on to all supervisors, which
// keep the leases themselves: to each whether it is named.
func (a *agent) leaseRenewed(s *session, renewed *pb.LeaseRenewed) {
	if !registry.Answers(renewed, s.opened, timeNow()) {
		a.log.Error("a controller answered a request for a lease that this node did not send in this session; the answer is ignored, report this as a fault of gctld")
		return
	}
	s.renewed()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.leaseMS != 0 && s.leaseMS != renewed.LeaseMs {
		select {
		case <-s.lengths:
		default:
		}
		s.lengths <- time.Duration(renewed.LeaseMs) * time.Millisecond
	}
	s.leaseMS = renewed.LeaseMs
	for _, granted := range a.registry.Renewed(renewed) {
		a.allocs[granted.Alloc.Key].renew(granted.Answer)
	}
}

// grantLatest gives a supervisor that has just been started the answer that
// came meanwhile.
func (a *agent) grantLatest(p *alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if latest := a.registry.Latest(p.Alloc); latest != nil {
		p.renew(latest)
	}
}

// guard is the safety net below the supervisors: one that is stopped, or hangs, neither
// freezes its job when it must nor parks it. It is killed, and its job dies with it.
func (a *agent) guard() {
	now := timeNow()
	a.guardLeases(now)
	a.guardOwner(now)
	a.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Tick(now) })
}

// guardOwner kills supervisors that keep devices from the owner of the node.
func (a *agent) guardOwner(now registry.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, decided := range a.registry.Overdue(now) {
		p := a.allocs[decided.Key]
		if p.supervisor == nil {
			continue // nothing runs yet
		}
		p.ParkKilled = true
		p.log.Warn("the owner of the node has taken it back, and the supervisor of a job neither parked nor ended it in time: it is killed, see whether somebody stopped it")
		s := p.supervisor
		a.tending.Go(func() {
			if err := s.Kill(); err != nil {
				p.log.Error("a supervisor that keeps devices from the owner of the node cannot be killed: find it with ps and kill it", "error", err)
			}
		})
	}
}

// guardLeases looks after leases. The kernel, not the supervisor, says whether the job is
// frozen.
func (a *agent) guardLeases(now registry.Time) {
	a.mu.Lock()
	var late []*alloc
	for _, decided := range a.registry.Late(now) {
		if p := a.allocs[decided.Key]; p.supervisor != nil {
			late = append(late, p)
		}
	}
	a.mu.Unlock()
	for _, p := range late {
		a.mu.Lock()
		s, gone, asked := p.supervisor, p.Lease.Gone, p.impatience != nil
		a.mu.Unlock()
		switch frozen, err := s.Frozen(); {
		case err != nil:
			p.log.Error("cannot see whether a job without a lease is frozen: its supervisor is killed", "error", err)
		case frozen && gone && !asked:
			// The supervisor ends it; not for ever.
			a.mu.Lock()
			a.expectEnd(p, endPatience)
			a.mu.Unlock()
			continue
		case frozen:
			continue
		case gone && now.Boot < p.Lease.Limit():
			continue // it has only just heard of it
		}
		a.mu.Lock()
		p.LeaseKilled = true
		a.mu.Unlock()
		p.log.Warn("the lease of a job has ended and its supervisor did not freeze it: the supervisor is killed, see whether somebody stopped it")
		if err := s.Kill(); err != nil {
			p.log.Error("a supervisor whose job must no longer run cannot be killed: find it with ps and kill it", "error", err)
		}
	}
}
