package noded

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// launchDeadline bounds the making of a container, on a machine that
	// makes many.
	launchDeadline = 2 * time.Minute
	// startDeadline is how long a part counts among those being started: one
	// that hangs must not keep others from their turn.
	startDeadline = 30 * time.Second
	// recoverDeadline bounds one attempt to clean up after a dead supervisor.
	recoverDeadline = time.Minute
	// quietFailures is how often a part's supervisor may still be there before
	// that is reported: one that has just told its result deletes files.
	quietFailures = 4
)

// part is one job's share of this node, in one run of the job.
type part struct {
	key   partKey
	order *pb.StartPart
	log   *slog.Logger
	calls chan call // orders for the supervisor, one after another

	renewals     chan *pb.LeaseRenewed // the latest only
	over         chan struct{}         // closed when the part has ended
	acknowledged chan struct{}         // closed when a controller has the result
	deathTold    bool                  // in the log; of the tending goroutine

	// The rest is guarded by agent.mu.
	life   job.Life
	lease  lease.Lease // as far as the daemon knows, which does not act on it but as guard does
	frozen bool        // its supervisor says so, like the next
	// suspendNumber is that of the latest order to stand still or go on, and
	// stands whether it stands by that.
	suspendNumber uint32
	stands        bool
	// leaseKilled: the supervisor was, since it did not freeze its job.
	leaseKilled bool
	ready       bool        // its container was seen to be up
	released    bool        // its script may start
	endOrder    *pb.EndPart // the latest; nil = none came
	killed      bool        // the supervisor, since it had not ended the part when it should
	// impatience does that at impatientBy; nil when nobody asked for the end.
	impatience  *time.Timer
	impatientBy time.Time
	supervisor  supervisor    // nil until it was launched
	started     func()        // gives its turn among the starting ones to the next; nil when it has none
	launchErr   error         // the launch failed, and left something to clean up
	launchCause pb.EndCause   // whose fault that was
	result      *pb.PartEnded // set with job.Ended
	leftOver    *pb.LeftOver  // what could not be cleaned up
	saved       *pb.PartSaved // how the newest save ended; nil = none did, or a controller knows
	savedKnown  *pb.PartSaved // that it knows
	grade       *pb.PartGrade // whether it can be saved; nil = not known yet
}

// newPart makes a part and lists it. The caller holds a.mu.
func (a *agent) newPart(order *pb.StartPart) *part {
	key := keyOf(order.GetPart())
	p := &part{
		key: key, order: order, log: a.log.With("job", key.job, "epoch", key.epoch),
		calls: make(chan call, maxCalls), renewals: make(chan *pb.LeaseRenewed, 1),
		over: make(chan struct{}), acknowledged: make(chan struct{}), lease: newLease(order),
	}
	a.parts[key] = p
	return p
}

// tend looks after a part until it is forgotten, or ctx ends. The caller holds
// a.mu.
func (a *agent) tend(ctx context.Context, p *part) {
	s := p.supervisor
	a.tending.Go(func() {
		result := a.launchAndWatch(ctx, p, s)
		if result == nil {
			return // the daemon stops; the next one finds the part
		}
		a.ended(p, result)
		p.refuseCalls() // of a part that never had a supervisor
		select {
		case <-ctx.Done():
			return
		case <-p.acknowledged:
		}
		if a.forget(ctx, p) {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.parts, p.key)
			a.partLeft(p.key.job)
			a.forgotten.add(p.key, p.result)
		}
	})
}

// launchAndWatch takes a part from its order to its result. It returns nil
// when ctx ends first.
func (a *agent) launchAndWatch(ctx context.Context, p *part, s supervisor) *pb.PartEnded {
	if s == nil {
		var result *pb.PartEnded
		if s, result = a.launch(ctx, p); s == nil {
			return result
		}
	}
	a.mu.Lock()
	p.supervisor = s
	a.mu.Unlock()
	a.grantLatest(p)
	a.tending.Go(func() { a.deliver(ctx, p, s) })
	return a.watch(ctx, p, s)
}

// launch starts the supervisor. Without one it returns the result to report,
// or nil when ctx ended.
func (a *agent) launch(ctx context.Context, p *part) (supervisor, *pb.PartEnded) {
	if !a.waitForEarlierRuns(ctx, p) || a.launches.Acquire(ctx, 1) != nil {
		return nil, nil
	}
	// A supervisor answers before its container is up, and the container is
	// the work: the turn lasts until the part is ready or over.
	started := sync.OnceFunc(func() { a.launches.Release(1) })
	time.AfterFunc(startDeadline, started)
	a.mu.Lock()
	p.started = started
	end := p.endOrder
	a.mu.Unlock()
	if end != nil {
		return nil, neverStarted(p.key, endCause(end), "")
	}
	if why := a.checkRoom(); why != "" {
		return nil, neverStarted(p.key, pb.EndCause_END_CAUSE_NODE_FULL, why)
	}
	r, err := a.machine.resources(p.order)
	if err != nil {
		p.log.Error("cannot start a part of a job: the controller and this node disagree about what it has", "error", err)
		return nil, neverStarted(p.key, pb.EndCause_END_CAUSE_NODE_FAULT, err.Error())
	}
	limited, cancel := context.WithTimeout(ctx, launchDeadline)
	defer cancel()
	s, err := a.supervisors.Launch(limited, r, p.order)
	if err == nil {
		p.log.Info("started the supervisor of a part")
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	return a.afterFailedLaunch(p, err)
}

// afterFailedLaunch looks whether a failed launch left a part on disk. If it
// did, that part is told to end and watched to its end: a supervisor that
// answered too late must not run a job that was reported as failed.
func (a *agent) afterFailedLaunch(p *part, launchErr error) (supervisor, *pb.PartEnded) {
	p.log.Error("cannot start the supervisor of a part: see its shim.log and whether the disk is full", "error", launchErr)
	cause := a.launchCause(launchErr)
	found, _ := a.supervisors.List()
	for _, s := range found {
		if keyOf(s.Order().GetPart()) == p.key {
			a.mu.Lock()
			defer a.mu.Unlock()
			p.launchErr, p.launchCause = launchErr, cause
			a.endLocked(p, &pb.EndPart{Part: p.key.message()})
			return s, nil
		}
	}
	return nil, neverStarted(p.key, cause, launchErr.Error())
}

// waitForEarlierRuns ends earlier runs of the same job on this node, and waits
// until nothing of them is left: a job never runs twice at once. It returns
// false when ctx ends first.
func (a *agent) waitForEarlierRuns(ctx context.Context, p *part) bool {
	for {
		a.mu.Lock()
		var earlier *part
		for _, other := range a.parts {
			if other.key.job == p.key.job && other.key.epoch < p.key.epoch && !other.life.Over() {
				earlier = other
				a.endLocked(other, &pb.EndPart{Part: other.key.message()})
				break
			}
		}
		a.mu.Unlock()
		if earlier == nil {
			return true
		}
		p.log.Warn("an earlier run of the job is still here: it is ended first", "earlier_epoch", earlier.key.epoch)
		select {
		case <-ctx.Done():
			return false
		case <-earlier.over:
		}
	}
}

// watch follows the supervisor until there is a result. It returns nil when
// ctx ends first.
func (a *agent) watch(ctx context.Context, p *part, s supervisor) *pb.PartEnded {
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
			if result := a.recoverPart(ctx, p, s); result != nil {
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
func (a *agent) follow(ctx context.Context, p *part, s supervisor) *pb.PartEnded {
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
		case *pb.ShimEvent_Ready:
			a.partReady(p)
		case *pb.ShimEvent_Lease:
			a.setFrozen(p, what.Lease.Frozen)
		case *pb.ShimEvent_Suspended:
			a.setSuspended(p, what.Suspended)
		case *pb.ShimEvent_Saved:
			a.partSaved(p, what.Saved)
		case *pb.ShimEvent_Grade:
			a.partGraded(p, what.Grade)
		case *pb.ShimEvent_Stuck:
			a.setStuck(p, what.Stuck)
		case *pb.ShimEvent_Ended:
			return what.Ended
		}
	}
}

// recoverPart cleans up after a supervisor that died.
func (a *agent) recoverPart(ctx context.Context, p *part, s supervisor) *pb.PartEnded {
	if !p.deathTold {
		p.deathTold = true
		p.log.Warn("the supervisor of a part died: what is left of its job is ended, see the kernel log for a cause")
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

// partReady: the container is up. Supervisors repeat it to each new watcher.
func (a *agent) partReady(p *part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.ready = true
	p.turnOver()
	if p.life.State() == job.Preparing {
		p.move(job.Ready)
		if !p.order.Gang {
			p.move(job.Running)
		}
		if p.released {
			a.startBatchLocked(p)
		}
	}
	a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_PartReady{PartReady: &pb.PartReady{Part: p.key.message()}}})
}

// ended: nothing of the part is left but its result.
func (a *agent) ended(p *part, result *pb.PartEnded) {
	if result.Cause == pb.EndCause_END_CAUSE_NODE_FULL {
		// The node says so before it reports the part, which would be started
		// here again at once.
		a.machine.room.doubt()
		a.checkRoom()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// A result that names another part would be acknowledged as that one.
	result = proto.Clone(result).(*pb.PartEnded)
	result.Part = p.key.message()
	if p.launchErr != nil && result.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		result.Cause, result.Detail = p.launchCause, p.launchErr.Error()
	}
	if p.leaseKilled && result.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		result.Cause = pb.EndCause_END_CAUSE_LEASE_ENDED
		result.Detail = "the job's supervisor did not freeze it at the end of its lease and was killed"
	}
	if p.killed && result.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		result.Cause, result.Detail = p.killedFor(), "the job's supervisor did not end it in time and was killed"
	}
	result.Detail = words(result.Detail)
	if p.impatience != nil {
		p.impatience.Stop()
	}
	a.lastSavedLocked(p)
	p.result = result
	a.noteLeftOverLocked(p, nil)
	p.move(job.Ended)
	p.turnOver()
	close(p.over)
	p.log.Info("a part has ended", "cause", result.Cause, "exit_code", result.ExitCode,
		"exit_signal", result.ExitSignal, "detail", result.Detail)
	a.sendLocked(endedMessage(result))
}

// forget deletes what is on disk, for ever until it succeeds. It returns false
// when ctx ends first.
func (a *agent) forget(ctx context.Context, p *part) bool {
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
		if failures++; failures > quietFailures || !errors.Is(err, shim.ErrAlive) {
			a.setLeftOver(p, err)
		}
		sleep(ctx, pause.NextBackOff())
	}
	return false
}

// turnOver lets the next part start. The caller holds agent.mu.
func (p *part) turnOver() {
	if p.started != nil {
		p.started()
	}
}

// move takes the part along the table. What the table forbids is a mistake of
// ours, and is told, not done.
func (p *part) move(to job.State) {
	if _, err := p.life.Move(to); err != nil {
		p.log.Error("a mistake in gnoded, please report it", "error", err)
	}
}

func endedMessage(result *pb.PartEnded) *pb.NodeMessage {
	return &pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: result}}
}

// maxWords bounds what is said in one text of a message.
const maxWords = 4 << 10

// words is a text that can be sent. Errors name files, and a job may name its
// files by any bytes: a message that cannot be encoded would end this session
// and every later one.
func words(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "?")
}

// neverStarted is the result of a part that had no supervisor.
func neverStarted(key partKey, cause pb.EndCause, detail string) *pb.PartEnded {
	return &pb.PartEnded{Part: key.message(), Cause: cause, Detail: words(detail), EndMs: time.Now().UnixMilli()}
}

// endCause is the cause of a part that was told to end before it started.
func endCause(end *pb.EndPart) pb.EndCause {
	if end.BatchEnded {
		return pb.EndCause_END_CAUSE_EXITED
	}
	return pb.EndCause_END_CAUSE_CANCELLED
}

// killedFor is the cause of a part whose supervisor did not end it in time.
func (p *part) killedFor() pb.EndCause {
	if p.endOrder == nil {
		return pb.EndCause_END_CAUSE_LEASE_ENDED
	}
	return endCause(p.endOrder)
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
