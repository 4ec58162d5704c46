package shim

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// leaseRetry is how soon what the kernel refused is tried again.
const leaseRetry = 20 * time.Millisecond

// renew takes in a controller's answer to a request for a lease.
func (p *part) renew(renewed *pb.LeaseRenewed) {
	grant := lease.Grant{
		Sent:   time.Duration(renewed.SentBoottimeNs),
		Length: time.Duration(renewed.LeaseMs) * time.Millisecond,
		Margin: time.Duration(renewed.LeaseMarginMs) * time.Millisecond,
	}
	for _, id := range renewed.Parts {
		grant.Named = grant.Named || partID(id) == p.dir.id()
	}
	p.mu.Lock()
	p.lease = p.lease.Granted(grant)
	p.mu.Unlock()
	p.poke()
}

// awaitLease waits until the part may start: a part under "fence" starts only
// once an answer that was asked for after its order names it. The order alone
// could be that of a controller that led once. It answers false when the part
// is to end instead.
func (p *part) awaitLease() bool {
	for told := false; !p.endAsked(); told = true {
		switch p.lookAtLease(true) {
		case lease.Run:
			return true
		case lease.Remove:
			p.loseLease()
			return false
		}
		if !told {
			p.log.Info("the job waits for the lease of its part")
		}
		<-p.wake
	}
	return false
}

// lookAtLease answers what the lease asks for now. What it lets run, runs from
// now on if start says so.
func (p *part) lookAtLease(start bool) lease.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	action := p.lease.At(boottime.Now())
	if action == lease.Thaw && start {
		p.lease.Runs = true
		return lease.Run
	}
	return action
}

// keepLease does what the lease asks for, and answers when it is to be called
// again at the latest; 0 = when something has changed.
func (p *part) keepLease() (at time.Duration) {
	switch p.lookAtLease(false) {
	case lease.Freeze:
		p.freeze()
	case lease.Thaw:
		p.thaw()
	case lease.Remove:
		p.loseLease()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := boottime.Now()
	switch p.lease.At(now) {
	case lease.Freeze, lease.Thaw: // it did not succeed
		return now + leaseRetry
	}
	if left, ok := p.lease.Next(now); ok {
		return now + left
	}
	return 0
}

// freezePatience bounds one attempt to freeze a job that is suspended: others
// follow, and what else is asked of the part must not wait long.
const freezePatience = 2 * time.Second

// freeze stops the job, at the end of its lease or because it is suspended.
func (p *part) freeze() {
	p.mu.Lock()
	now := boottime.Now()
	suspended := p.lease.MayRun(now)
	patience := freezePatience
	if !suspended {
		patience = p.lease.Limit() - now
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !suspended {
		p.leaseEndsSave()
	} else if p.dumping() || p.gpus.isBusy() {
		// It stands, and is frozen when criu has done with it; or it has to run
		// until what it has on its GPUs is away or back.
		return
	}
	p.freezer.Lock()
	defer p.freezer.Unlock()
	err := p.group.Freeze(ctx)
	switch {
	case err != nil && suspended:
		p.log.Warn("the job is suspended and can not be frozen: that is tried again; see what its processes wait for (ps, dmesg)", "error", err)
		return
	case err != nil:
		p.log.Error("the lease of the job has ended and it can not be frozen; if that goes on it is killed", "error", err)
		return
	case suspended:
		p.log.Info("the job is suspended and stands still")
	default:
		p.log.Warn("the lease of the job has ended: it is frozen until a controller says that it may go on")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease.Runs = false
	p.notify()
}

// thaw lets the job go on, as far as its lease is concerned.
func (p *part) thaw() {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	p.mu.Lock()
	p.lease.Runs = true
	p.mu.Unlock()
	if err := p.bringAbout(); err != nil {
		p.log.Error("the job may go on, but it can not be thawed: that is tried again", "error", err)
		return
	}
	p.log.Info("the job goes on")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify()
}

// suspend takes in an order to stand still or to go on. The one with the highest
// number counts.
func (p *part) suspend(order *pb.SuspendPart) {
	p.mu.Lock()
	if order.Number > p.suspendNumber {
		p.suspendNumber, p.lease.Suspended = order.Number, order.Suspended
		p.notify()
	}
	p.mu.Unlock()
	p.poke()
}

// suspension is the order that counts, and whether the part stands by it; nil
// when none came. The caller holds p.mu.
func (p *part) suspension() *pb.PartSuspended {
	if p.suspendNumber == 0 {
		return nil
	}
	return &pb.PartSuspended{Part: p.order.Part, Number: p.suspendNumber, Stands: p.ready && p.lease.Suspended && (!p.lease.Runs || p.awaits)}
}

// loseLease ends the part without letting it run again.
func (p *part) loseLease() {
	p.mu.Lock()
	detail := "its lease ended and it could not be frozen"
	if p.lease.Gone {
		detail = "its lease ended, and meanwhile the controllers gave the job up on this node"
	}
	p.mu.Unlock()
	p.log.Warn("the part is ended: its job is requeued or over by the word of the controllers", "detail", detail)
	p.end(pb.EndCause_END_CAUSE_LEASE_ENDED, 0, detail)
}

// mayRun says whether the lease lets the job run at this moment.
func (p *part) mayRun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease.MayRun(boottime.Now())
}
