package shim

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// leaseFence is the partition's lease_action under which a job must not run
// on past the end of its node's lease. With the other, "run-on", the lease
// changes nothing here.
const leaseFence = "fence"

// lease is kept in CLOCK_BOOTTIME, which goes on while the machine sleeps.
type lease struct {
	end    time.Duration // boot time at which it ends; 0 = none was granted yet
	frozen bool
}

func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// renew takes a renewed lease, which counts from when it was asked for, and
// thaws a job that an earlier end has frozen.
func (p *part) renew(sent time.Duration, length time.Duration) error {
	p.mu.Lock()
	end := sent + length
	if end <= p.lease.end {
		p.mu.Unlock()
		return nil // an old answer
	}
	p.lease.end = end
	thaw := p.lease.frozen && end > bootTime()
	if thaw {
		p.lease.frozen = false
	}
	p.mu.Unlock()
	p.poke()
	if !thaw {
		return nil
	}
	p.log.Info("the lease was renewed: the job goes on")
	ctx, cancel := context.WithTimeout(context.Background(), killAttempt)
	defer cancel()
	return p.group.Thaw(ctx)
}

// leaseLeft answers how long the job may run on; false = without end.
func (p *part) leaseLeft() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.order.LeaseAction != leaseFence || p.lease.end == 0 || p.lease.frozen {
		return 0, false
	}
	return max(p.lease.end-bootTime(), 0), true
}

// endLease freezes the job at the end of its lease.
func (p *part) endLease() {
	p.mu.Lock()
	over := p.lease.end != 0 && p.lease.end <= bootTime()
	p.lease.frozen = over
	p.mu.Unlock()
	if !over {
		return
	}
	p.log.Warn("the node's lease has ended: the job is frozen until the node reaches a controller again")
	ctx, cancel := context.WithTimeout(context.Background(), killAttempt)
	defer cancel()
	if err := p.group.Freeze(ctx); err != nil {
		p.log.Error("the job could not be frozen and is tried again: see whether its control group can be written", "error", err)
		p.mu.Lock()
		p.lease.frozen = false
		p.mu.Unlock()
	}
}
