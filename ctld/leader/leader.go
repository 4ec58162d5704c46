// Package leader runs the loops that only the leader of the cluster runs:
// schedule, dispatch, liveness, purge and the commit of nodes' reports.
//
// Contract: the loops look at the state and act. Everything they do may be done
// twice without harm, and they keep nothing that cannot be lost: a new leader
// starts them over the same state and needs no special path. They wait for
// changes, not for clocks: a job that fits starts at once. Under load, changes
// that come close together are handled together.
package leader

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/tally"
)

// Cluster is what the loops need of the replicated state.
type Cluster interface {
	View() *state.View
	Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error)
}

// openEvery is the pause between attempts to open the term.
const openEvery = 100 * time.Millisecond

// proposeLimit bounds the wait for one command of the leader's own.
const proposeLimit = 30 * time.Second

// Leader holds the loops of one controller, whether it leads or not.
type Leader struct {
	cluster  Cluster
	sessions *session.Registry
	log      *slog.Logger
	metrics  *metrics
	work     *tally.Work

	freedWake    chan struct{} // something may start that could not before
	queuedWake   chan struct{} // a job was added behind the others
	dispatchWake chan struct{}
	dirty        dirtyNodes
	reports      chan report

	power *power

	keeping  sync.Mutex // held while nodes are told which images are needed, or that a save is known
	restores *restores
	copies   *copies
	pulls    *pulls
	asksWake chan struct{} // some node has to be asked whether it can restore an image

	opening    sync.Mutex // held while the term is being opened
	mu         sync.Mutex
	leadership leadership        // guarded by mu
	fencing    map[string]string // what is said of silent nodes; guarded by mu
	hooks      sync.WaitGroup    // that run
	shortened  time.Time         // since when leases longer than the policy's run out; of the liveness loop
	clock      func() time.Time  // that of the sessions

	nextPass atomic.Int64 // Unix milliseconds; see NextPass
	hoursMS  int64        // when the next hours of lending end or begin; of the schedule loop
	leading  atomic.Bool
	last     atomic.Pointer[lastPlan]

	predicting predicting
}

// New makes the loops; Lead runs them. fence is the command that switches a
// node off: a program, by its absolute path, and its arguments; empty = none.
func New(cluster Cluster, fence []string, log *slog.Logger) *Leader {
	l := &Leader{
		cluster:      cluster,
		log:          log,
		metrics:      newMetrics(),
		work:         tally.NewWork(time.Now()),
		freedWake:    make(chan struct{}, 1),
		queuedWake:   make(chan struct{}, 1),
		dispatchWake: make(chan struct{}, 1),
		reports:      make(chan report, maxReportsWaiting),
		restores:     newRestores(),
		copies:       newCopies(),
		pulls:        newPulls(),
		asksWake:     make(chan struct{}, 1),
	}
	l.sessions = session.NewRegistry(l.NodeReported)
	l.clock = l.sessions.Now
	l.power = newPower(fence, log)
	return l
}

// Sessions are the connected nodes.
func (l *Leader) Sessions() *session.Registry { return l.sessions }

// Changed is called with what changed the state, in order, and with the state
// after it, whether this controller leads or not. It returns at once.
func (l *Leader) Changed(view *state.View, results []*state.Result) {
	if !l.leading.Load() {
		return
	}
	var nodes []string
	for _, result := range results {
		l.wakeSchedule(view, result)
		l.metrics.applied(view, result)
		l.work.Add(workOf(view, result))
		l.noteEnds(view, result)
		nodes = append(nodes, result.ChangedNodes...)
		if result.Kind == state.KindSubmitJob {
			continue // holds no node yet
		}
		for _, id := range result.ChangedJobs {
			if job, ok := view.Job(id); ok && job.HoldsNodes() {
				if job.Moving() != nil && job.Saving() == nil {
					wake(l.asksWake) // its new nodes are asked at once: the job is frozen
				}
				nodes = append(nodes, job.Nodes()...)
			}
		}
	}
	if len(nodes) > 0 {
		l.dirty.add(nodes...)
		wake(l.dispatchWake)
	}
}

// wakeSchedule wakes the schedule loop if what happened may let a job start. A
// plan that was executed completely does not: it has all that fitted.
func (l *Leader) wakeSchedule(view *state.View, result *state.Result) {
	switch result.Kind {
	case state.KindPurgeJobs, state.KindSuspendJobs:
	case state.KindAllocsReady:
		if view.SuspendsToMakeRoom() { // jobs that have just become ready may be suspended
			wake(l.queuedWake)
		}
	case state.KindSubmitJob:
		wake(l.queuedWake)
	case state.KindRegisterNode:
		if result.AsBefore { // as thousands do that have lost their leader
			wake(l.queuedWake)
		} else {
			wake(l.freedWake)
		}
	case state.KindContinueJobs:
		if slices.ContainsFunc(result.Continued, func(c state.ContinueResult) bool { return c.Dropped != "" }) {
			wake(l.freedWake)
		}
	case state.KindPlaceJobs:
		if slices.ContainsFunc(result.Starts, func(start state.StartResult) bool { return start.Dropped != "" }) {
			wake(l.freedWake)
		}
		for _, id := range result.ChangedJobs { // one that waited for the start of another
			if job, known := view.Job(id); known && job.Phase == state.Waiting && !job.Dependencies.IsZero() {
				wake(l.freedWake)
			}
		}
	default:
		wake(l.freedWake)
	}
}

// NodeReported is called when a node came, went or reported something.
func (l *Leader) NodeReported(node string) {
	l.dirty.add(node)
	wake(l.dispatchWake)
}

// Leading reports whether the loops run.
func (l *Leader) Leading() bool { return l.leading.Load() }

// Lead runs the loops until ctx ends, and returns when all have stopped. began
// is called once requests and sessions are accepted. Everything committed
// before must have been applied here: loops on an older state would start jobs
// that have ended. term is raft's term in which that was so.
func (l *Leader) Lead(ctx context.Context, term uint64, began func()) {
	l.SetTerm(term)
	for l.OpenTerm(ctx) != nil {
		if !pause(ctx, openEvery) {
			return
		}
	}
	l.Begin()
	began()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){l.schedule, l.dispatch, l.liveness, l.purge, l.commitReports, l.resetUsage, l.keepSaved} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
	l.hooks.Wait()
	l.End()
}

// propose commits a command of the leader's own. It returns false when the
// command had no effect; it logs the reason.
func (l *Leader) propose(ctx context.Context, command state.Command) (state.Result, bool) {
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	result, err := l.cluster.Propose(ctx, command, state.RequestID{})
	if err != nil {
		if ctx.Err() == nil {
			l.log.Warn("a command could not be committed; it will be tried again", "error", err)
		}
		return result, false
	}
	if result.Refused != nil {
		l.log.Error("a command of the leader was refused; report this as a fault of gctld", "command", result.Kind.String(), "error", result.Refused)
		return result, false
	}
	return result, true
}

// wake marks that there is something to do; once is enough.
func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// pause waits and returns false when ctx ended meanwhile.
func pause(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dirtyNodes are the nodes whose orders must be looked at.
type dirtyNodes struct {
	mu    sync.Mutex
	names map[string]struct{}
}

func (d *dirtyNodes) add(names ...string) {
	if len(names) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names = make(map[string]struct{})
	}
	for _, name := range names {
		d.names[name] = struct{}{}
	}
}

func (d *dirtyNodes) take() map[string]struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.names
	d.names = nil
	return taken
}
