package noded

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// launchDeadline bounds the making of a container, on a machine that
	// makes many.
	launchDeadline = 2 * time.Minute
	// startDeadline is how long an allocation counts among those being started: one
	// that hangs must not keep others from their turn.
	startDeadline = 30 * time.Second
	// recoverDeadline bounds one attempt to clean up after a dead supervisor.
	recoverDeadline = time.Minute
	// quietFailures is how often an allocation's supervisor may still be there before
	// that is reported: one that has just told its result deletes files.
	quietFailures = 4
)

// allocation is one job's share of this node, in one run of the job.
type alloc struct {
	*registry.Alloc // what is decided about it; guarded by agent.mu
	log             *slog.Logger
	calls           chan call // orders for the supervisor, one after another
	first           chan call // those that do not wait for the others

	renewals     chan *pb.LeaseRenewed // the latest only
	over         chan struct{}         // closed when the allocation has ended
	acknowledged chan struct{}         // closed when a controller has the result
	deathTold    bool                  // in the log; of the tending goroutine

	// The rest is guarded by agent.mu.

	// impatience kills the supervisor at impatientBy; nil when nobody asked for the end.
	impatience  *time.Timer
	impatientBy time.Time
	supervisor  supervisor   // nil until it was launched
	started     func()       // gives its turn among the starting ones to the next; nil when it has none
	leftOver    *pb.LeftOver // what could not be cleaned up
}

// newAlloc makes what carries out the decisions about an allocation. The caller holds
// a.mu.
func (a *agent) newAlloc(decided *registry.Alloc) *alloc {
	p := &alloc{
		Alloc: decided, log: a.log.With("job", decided.Key.Job, "epoch", decided.Key.Epoch),
		calls: make(chan call, maxCalls), first: make(chan call, maxFirst), renewals: make(chan *pb.LeaseRenewed, 1),
		over: make(chan struct{}), acknowledged: make(chan struct{}),
	}
	a.allocs[decided.Key] = p
	return p
}

// tend looks after an allocation until it is forgotten, or ctx ends. The caller holds
// a.mu.
func (a *agent) tend(ctx context.Context, p *alloc) {
	s := p.supervisor
	a.tending.Go(func() {
		result := a.launchAndWatch(ctx, p, s)
		if result == nil {
			return // the daemon stops; the next one finds the allocation
		}
		a.afterFault(ctx, p, result)
		a.ended(p, result)
		p.refuseCalls() // of an allocation that never had a supervisor
		select {
		case <-ctx.Done():
			return
		case <-p.acknowledged:
		}
		if a.forget(ctx, p) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.registry.Forget(p.Alloc, timeNow())
			delete(a.allocs, p.Key)
		}
	})
}

// launchAndWatch takes an allocation from its order to its result. It returns nil
// when ctx ends first.
func (a *agent) launchAndWatch(ctx context.Context, p *alloc, s supervisor) *pb.AllocEnded {
	if s == nil {
		var result *pb.AllocEnded
		if s, result = a.launch(ctx, p); s == nil {
			return result
		}
	}
	a.mu.Lock()
	p.supervisor = s
	a.mu.Unlock()
	a.grantLatest(p)
	a.tending.Go(func() { a.deliver(ctx, p, s) })
	a.tending.Go(func() { a.deliverRenewals(ctx, p, s) })
	a.tending.Go(func() { a.deliverFirst(ctx, p, s) })
	return a.watch(ctx, p, s)
}

// launch starts the supervisor. Without one it returns the result to report,
// or nil when ctx ended.
func (a *agent) launch(ctx context.Context, p *alloc) (supervisor, *pb.AllocEnded) {
	if !a.waitForEarlierRuns(ctx, p) || a.launches.Acquire(ctx, 1) != nil {
		return nil, nil
	}
	// A supervisor answers before its container is up, and the container is
	// the work: the turn lasts until the allocation is ready or over.
	started := sync.OnceFunc(func() { a.launches.Release(1) })
	time.AfterFunc(startDeadline, started)
	a.mu.Lock()
	p.started = started
	var never *pb.AllocEnded
	if p.EndOrder != nil {
		never = p.NeverStarted(timeNow())
	}
	a.mu.Unlock()
	if never != nil {
		return nil, never
	}
	if why := a.checkRoom(); why != "" {
		return nil, neverStarted(p.Key, pb.EndCause_END_CAUSE_NODE_FULL, why)
	}
	r, err := a.machine.resources(p.Order)
	if err != nil {
		p.log.Error("cannot start an allocation of a job: the controller and this node disagree about what it has", "error", err)
		return nil, neverStarted(p.Key, pb.EndCause_END_CAUSE_NODE_FAULT, err.Error())
	}
	limited, cancel := context.WithTimeout(ctx, launchDeadline)
	defer cancel()
	s, err := a.supervisors.Launch(limited, r, p.Order)
	if err == nil {
		p.log.Info("started the supervisor of an allocation")
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	return a.afterFailedLaunch(p, err)
}

// afterFailedLaunch looks whether a failed launch left an allocation on disk. If it
// did, that allocation is told to end and watched to its end: a supervisor that
// answered too late must not run a job that was reported as failed.
func (a *agent) afterFailedLaunch(p *alloc, launchErr error) (supervisor, *pb.AllocEnded) {
	p.log.Error("cannot start the supervisor of an allocation: see its shim.log and whether the disk is full", "error", launchErr)
	cause := a.launchCause(launchErr)
	found, _ := a.supervisors.List()
	for _, s := range found {
		if registry.KeyOf(s.Order().GetAlloc()) == p.Key {
			a.mu.Lock()
			defer a.mu.Unlock()
			p.LaunchFailed = neverStarted(p.Key, cause, launchErr.Error())
			a.endLocked(p, &pb.EndAlloc{Alloc: p.Key.Message()})
			return s, nil
		}
	}
	return nil, neverStarted(p.Key, cause, launchErr.Error())
}

// waitForEarlierRuns ends earlier runs of the same job on this node, and waits
// until nothing of them is left: a job never runs twice at once. It returns
// false when ctx ends first.
func (a *agent) waitForEarlierRuns(ctx context.Context, p *alloc) bool {
	for {
		a.mu.Lock()
		before, do := a.registry.Earlier(p.Alloc)
		a.carryOut(do)
		var earlier *alloc
		if before != nil {
			earlier = a.allocs[before.Key]
		}
		a.mu.Unlock()
		if earlier == nil {
			return true
		}
		p.log.Warn("an earlier run of the job is still here: it is ended first", "earlier_epoch", earlier.Key.Epoch)
		select {
		case <-ctx.Done():
			return false
		case <-earlier.over:
		}
	}
}

// watch follows the supervisor until there is a result. It returns nil when
// ctx ends first.
func (a *agent) watch(ctx context.Context, p *alloc, s supervisor) *pb.AllocEnded {
	pause := newPause(20*time.Millisecond, 2*time.Second)
	for ctx.Err() == nil {
		if result, err := s.Result(); err == nil {
			return result
		}
		if !s.Alive() {
			// The result is written before the lock is given back, so look
			// once more now that the lock is free.
			if result, err := s.Result(); err == nil {
				return result
			}
			if result := a.recoverAlloc(ctx, p, s); result != nil {
				return result
			}
		} else if result := a.follow(ctx, p, s); result != nil {
			return result
		}
		sleep(ctx, pause.NextBackOff())
	}
	return nil
}

// follow reads the supervisor's events while it can.
func (a *agent) follow(ctx context.Context, p *alloc, s supervisor) *pb.AllocEnded {
	client, err := s.Client()
	if err != nil {
		p.log.Debug("cannot reach the supervisor", "error", err)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Watch(ctx, &pb.ShimWatchRequest{})
	if err != nil {
		p.log.Debug("cannot watch the supervisor", "error", err)
		return nil
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				p.log.Debug("lost sight of the supervisor", "error", err)
			}
			return nil
		}
		switch what := event.What.(type) {
		case *pb.ShimEvent_Stuck:
			a.setStuck(p, what.Stuck)
		case *pb.ShimEvent_Ended:
			return what.Ended
		default:
			a.hear(p, event)
		}
	}
}

// recoverAlloc cleans up after a supervisor that died.
func (a *agent) recoverAlloc(ctx context.Context, p *alloc, s supervisor) *pb.AllocEnded {
	if !p.deathTold {
		p.deathTold = true
		p.log.Warn("the supervisor of an allocation died: what is left of its job is ended, see the kernel log for a cause")
	}
	limited, cancel := context.WithTimeout(ctx, recoverDeadline)
	defer cancel()
	result, err := s.Recover(limited)
	if ctx.Err() != nil {
		return nil
	}
	a.setLeftOver(p, err)
	if err != nil {
		return nil
	}
	return result
}

// hear takes what a supervisor says of its allocation, and reports it.
func (a *agent) hear(p *alloc, event *pb.ShimEvent) {
	measured := a.heard(p, event)
	if measured == nil {
		return
	}
	if err := a.machine.parks.add(measured); err != nil {
		a.log.Warn("how long it took to park a job is forgotten when this daemon ends: see whether the state directory can be written", "error", err)
	}
}

func (a *agent) heard(p *alloc, event *pb.ShimEvent) *registry.ParkMeasured {
	a.mu.Lock()
	defer a.mu.Unlock()
	frozen := p.Frozen
	do := a.registry.Hear(p.Alloc, event)
	if p.Ready {
		p.turnOver()
	}
	a.carryOut(do)
	if event.GetHold() != nil {
		a.heardHold(p, event.GetHold())
	}
	if event.GetSaved() != nil {
		a.lookAtImages()
	}
	switch {
	case p.Frozen && !frozen:
		p.log.Warn("the job is frozen, because its lease has ended: see whether this node reaches the controllers")
	case frozen && !p.Frozen:
		p.log.Info("the job runs again with a renewed lease")
	}
	return do.Measured
}

// ended: nothing of the allocation is left but its result.
func (a *agent) ended(p *alloc, result *pb.AllocEnded) {
	if result.Cause == pb.EndCause_END_CAUSE_NODE_FULL {
		// The node says so before it reports the allocation, which would be started
		// here again at once.
		a.machine.room.doubt()
		a.checkRoom()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.impatience != nil {
		p.impatience.Stop()
	}
	var last *pb.AllocSaved
	if p.supervisor != nil {
		if last = p.supervisor.Saved(); last != nil {
			a.lookAtImages()
		}
	}
	a.machine.use.tell(p.Key, result)
	do := a.registry.Over(p.Alloc, result, last, timeNow())
	a.noteGuest(p)
	a.noteLeftOverLocked(p, nil)
	p.turnOver()
	close(p.over)
	p.log.Info("an allocation has ended", "cause", p.Result.Cause, "exit_code", p.Result.ExitCode,
		"exit_signal", p.Result.ExitSignal, "detail", p.Result.Detail)
	a.carryOut(do)
}

// forget deletes what is on disk, for ever until it succeeds. It returns false
// when ctx ends first.
func (a *agent) forget(ctx context.Context, p *alloc) bool {
	a.mu.Lock()
	s := p.supervisor
	a.mu.Unlock()
	if s == nil {
		return true // it never had a directory
	}
	pause := newPause(50*time.Millisecond, time.Minute)
	for failures := 0; ctx.Err() == nil; {
		err := s.Forget()
		if err == nil {
			a.setLeftOver(p, nil)
			a.lookAtImages() // a save may have been broken off
			return true
		}
		if failures++; failures > quietFailures || !errors.Is(err, bundle.ErrAlive) {
			a.setLeftOver(p, err)
		}
		sleep(ctx, pause.NextBackOff())
	}
	return false
}

// turnOver lets the next allocation start. The caller holds agent.mu.
func (p *alloc) turnOver() {
	if p.started != nil {
		p.started()
	}
}

// neverStarted is the result of an allocation that had no supervisor.
func neverStarted(key registry.Key, cause pb.EndCause, detail string) *pb.AllocEnded {
	return &pb.AllocEnded{Alloc: key.Message(), Cause: cause, Detail: registry.Words(detail), EndMs: time.Now().UnixMilli()}
}

func newPause(first, most time.Duration) *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = first, most
	return pause
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
