package shim

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// leaseRetry is the pause after which a refused freeze or thaw is tried again.
const leaseRetry = 20 * time.Millisecond

// renew takes a controller's answer to a request for a lease.
func (p *alloc) renew(renewed *pb.LeaseRenewed) {
	p.mu.Lock()
	p.core.Renew(renewed)
	p.mu.Unlock()
	p.poke()
}

// awaitLease waits until the allocation may start. An allocation under "fence" starts only
// once an answer that was requested after its order names it: the order alone could
// come from a controller that once led. awaitLease answers false if the allocation
// must end instead.
func (p *alloc) awaitLease() bool {
	for told := false; !p.endAsked(); told = true {
		p.mu.Lock()
		action := p.core.Start(boottime.Now())
		p.mu.Unlock()
		switch action {
		case lease.Run:
			return true
		case lease.Remove:
			p.loseLease()
			return false
		}
		if !told {
			p.log.Info("the job waits for the lease of its allocation")
		}
		<-p.wake
	}
	return false
}

// keepLease does what lease and suspension ask for, and answers when to call it again
// at the latest; 0 = when something has changed.
func (p *alloc) keepLease() (at time.Duration) {
	p.mu.Lock()
	do := p.core.Look(boottime.Now(), p.gpus.IsBusy())
	p.carryOut(do)
	p.mu.Unlock()
	switch {
	case do.Freeze:
		p.freeze()
	case do.Thaw:
		p.thaw()
	case do.Remove:
		p.loseLease()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := boottime.Now()
	switch p.core.Lease.At(now) {
	case lease.Freeze, lease.Thaw: // it did not succeed, or was not tried
		return now + leaseRetry
	}
	if left, ok := p.core.Lease.Next(now); ok {
		return now + left
	}
	return 0
}

// freezePatience bounds one attempt to freeze a suspended job. Other attempts
// follow, and other requests to the allocation must not wait long.
const freezePatience = 2 * time.Second

// freeze freezes the job, at the end of its lease or because it is suspended.
func (p *alloc) freeze() {
	p.mu.Lock()
	now := boottime.Now()
	suspended := p.core.MayRun(now)
	patience := freezePatience
	if !suspended {
		patience = p.core.Lease.Limit() - now
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.freezer.Lock()
	defer p.freezer.Unlock()
	err := p.group.Freeze(ctx)
	switch {
	case err != nil && suspended:
		p.log.Warn("the job is suspended and cannot be frozen: that is tried again; see what its processes wait for (ps, dmesg)", "error", err)
		return
	case err != nil:
		p.log.Error("the lease of the job has ended and it cannot be frozen; if it stays so, the job is killed", "error", err)
		return
	case suspended:
		p.log.Info("the job is suspended and frozen")
	default:
		p.log.Warn("the lease of the job has ended: it is frozen until a controller says that it may run")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.Froze()
	p.notify()
}

// thaw lets the job run, as far as its lease is concerned.
func (p *alloc) thaw() {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	if err := p.applyFreezer(); err != nil {
		p.log.Error("the job may run, but it cannot be thawed: that is tried again", "error", err)
		return
	}
	p.log.Info("the job runs again")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify()
}

// loseLease ends the allocation without letting it run again.
func (p *alloc) loseLease() {
	p.mu.Lock()
	detail := "its lease ended and it could not be frozen"
	if p.core.Lease.Gone {
		detail = "its lease ended, and meanwhile the controllers gave the job up on this node"
	}
	p.mu.Unlock()
	p.log.Warn("the allocation is ended: the controllers have requeued its job, or it is over", "detail", detail)
	p.end(pb.EndCause_END_CAUSE_LEASE_ENDED, 0, detail)
}

// mayRun says whether the lease lets the job run at this moment.
func (p *alloc) mayRun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.MayRun(boottime.Now())
}
