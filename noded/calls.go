package noded

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// callDeadline bounds one call to a supervisor, which answers at once
	// unless the machine is drowning.
	callDeadline = 10 * time.Second
	// maxCalls is how many orders may wait for one supervisor.
	maxCalls = 64
	// maxFirst is how many more may be about its end, suspending and parking.
	maxFirst = 64
)

// call is an order for a supervisor.
type call struct {
	name  string
	until bool // try again until the supervisor takes or refuses it
	do    func(ctx context.Context, client pb.ShimClient) error
	then  func(error) // told how it went; nil = logged when it failed
}

// deliver hands orders to the supervisor, one at a time and in order, until the allocation
// is over.
func (a *agent) deliver(ctx context.Context, p *alloc, s supervisor) {
	if handOver(ctx, p, p.calls, func(c call) { p.run(ctx, s, c) }) {
		p.refuseCalls()
	}
}

// deliverRenewals hands over renewed leases. They do not wait for orders: one that waits for
// process 1, which is frozen because the lease has ended, would keep it so for ever.
func (a *agent) deliverRenewals(ctx context.Context, p *alloc, s supervisor) {
	handOver(ctx, p, p.renewals, func(lease *pb.LeaseRenewed) {
		p.run(ctx, s, call{name: "renew lease", do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.Renew(ctx, lease)
			return err
		}})
	})
}

// deliverFirst hands over what has a deadline: orders to suspend, park, continue and end, and
// what the owner says. They do not wait for others, some of which wait for process 1. None
// undoes a later one: each but the end has a number, and a supervisor that ends its allocation
// starts no script.
func (a *agent) deliverFirst(ctx context.Context, p *alloc, s supervisor) {
	handOver(ctx, p, p.first, func(c call) { p.run(ctx, s, c) })
}

// handOver hands over what comes, one at a time. It answers true once the allocation is over,
// and false if ctx ended first.
func handOver[T any](ctx context.Context, p *alloc, from <-chan T, to func(T)) (over bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.over:
			return true
		case one := <-from:
			to(one)
		}
	}
}

// run makes one call to the supervisor. A controller sends an order to start
// or to end once in a session, so these are repeated.
func (p *alloc) run(ctx context.Context, s supervisor, c call) {
	pause := newPause(20*time.Millisecond, 2*time.Second)
	for {
		err := callOnce(ctx, s, c)
		if err == nil || !c.until || !worthTrying(err) {
			p.finish(c, err)
			return
		}
		p.log.Debug("a supervisor did not take an order yet", "order", c.name, "error", err)
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-ctx.Done():
		case <-p.over:
		case <-timer.C:
			continue
		}
		timer.Stop()
		return
	}
}

func callOnce(ctx context.Context, s supervisor, c call) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	return c.do(limited, client)
}

// worthTrying says whether a call that failed may succeed later: the
// supervisor could not be reached, or not in time. What it refused it will
// refuse again.
func worthTrying(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}

// finish tells how a call went.
func (p *alloc) finish(c call, err error) {
	switch {
	case c.then != nil:
		c.then(err)
	case err != nil:
		p.log.Warn("a supervisor refused an order: see its shim.log", "order", c.name, "error", err)
	}
}

// refuseCalls answers the orders that came too late.
func (p *alloc) refuseCalls() {
	for {
		select {
		case c := <-p.calls:
			if c.then != nil {
				c.then(registry.ErrOver)
			}
		default:
			return
		}
	}
}

// put queues an order for the supervisor.
func (p *alloc) put(c call) { p.queue(p.calls, c) }

// putFirst queues one for deliverFirst.
func (p *alloc) putFirst(c call) { p.queue(p.first, c) }

func (p *alloc) queue(calls chan<- call, c call) {
	select {
	case calls <- c:
	default:
		// Not here: the caller may hold what the answer needs.
		go p.finish(c, fmt.Errorf("%d orders wait for the supervisor already", cap(calls)))
	}
}

// renew replaces the lease that waits to be passed on.
func (p *alloc) renew(lease *pb.LeaseRenewed) {
	for {
		select {
		case p.renewals <- lease:
			return
		default:
		}
		select {
		case <-p.renewals:
		default:
		}
	}
}
