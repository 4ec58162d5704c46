package ctld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// cluster joins the state machine to the log that feeds it: commands go in
// through Propose, Views come out, and who follows is told of each change.
type cluster struct {
	mu      sync.Mutex
	state   *state.State
	changed []*state.Result // by the batch being applied

	// replacing is held for writing while another state is put in place, and for
	// reading by whoever proposes.
	replacing sync.RWMutex
	// replaced tells that another state is in force.
	replaced chan struct{}

	log      *slog.Logger
	peer     *replica.Peer
	feed     *feed
	onChange atomic.Pointer[func(*state.View, []*state.Result)]
	// reign is the term in which this peer leads and has applied all that was
	// committed before; 0 when it does not.
	reign  atomic.Uint64
	over   atomic.Pointer[chan struct{}] // closed at the end of that reign
	behind atomic.Pointer[func() string] // see allow
}

func newCluster(log *slog.Logger) *cluster {
	return &cluster{state: state.New(), feed: newFeed(), replaced: make(chan struct{}, 1), log: log}
}

// Together implements replica.Batcher: one lock, one View and one wake-up for
// all commands that came in one batch.
func (c *cluster) Together(apply func()) {
	c.mu.Lock()
	c.changed = nil
	apply()
	hook := c.onChange.Load()
	// Only a leader's loops want to know: others need not pay for the View.
	if hook == nil || len(c.changed) == 0 || !c.peer.IsLeader() {
		c.mu.Unlock()
		return
	}
	view, changed := c.state.View(), c.changed
	c.mu.Unlock()
	(*hook)(view, changed)
}

// Apply implements replica.Machine. It is called by Together. Who follows is
// told of each command with the state as it was then.
func (c *cluster) Apply(index uint64, command []byte) (any, error) {
	result, err := c.state.Apply(index, command)
	if err != nil {
		return nil, err
	}
	c.noteApplied(&result)
	if len(result.ChangedJobs)+len(result.ChangedNodes)+len(result.PurgedJobs) > 0 || result.PolicyChanged || result.AccountsChanged {
		c.changed = append(c.changed, &result)
		if c.feed.followed() {
			c.feed.publish(api.Change{View: c.state.View(), Result: &result})
		}
	}
	return result, nil
}

// noteApplied writes which request an entry of the log was, on every
// controller, for who follows one across them.
func (c *cluster) noteApplied(result *state.Result) {
	if result.RequestID == (state.RequestID{}) || !c.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	jobs := result.ChangedJobs
	c.log.Debug("applied", "index", result.Index, "command", result.Kind.String(), "request_id", uuid.UUID(result.RequestID).String(),
		"repeated", result.Repeated, "jobs", jobs[:min(len(jobs), maxJobsNoted)], "count", len(jobs))
}

// maxJobsNoted bounds the jobs named in one line of the log.
const maxJobsNoted = 16

// Capture implements replica.Machine.
func (c *cluster) Capture() replica.Image { return c.View() }

// Restore implements replica.Machine.
func (c *cluster) Restore(reader io.Reader) error {
	restored, err := state.Restore(reader)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.state = restored
	c.mu.Unlock()
	// What lies between is not told change by change: who follows lists anew.
	c.feed.cutAll()
	select {
	case c.replaced <- struct{}{}:
	default:
	}
	return nil
}

// View is the state as it is now.
func (c *cluster) View() *state.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.View()
}

// Remembered answers a request that was carried out before.
func (c *cluster) Remembered(id state.RequestID, kind state.Kind) (state.Result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Remembered(id, kind)
}

// Propose commits a command, and answers what it did. A request id that was
// applied before answers what it did then.
func (c *cluster) Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	if submission, ok := command.(state.SubmitJob); ok {
		// What jobs have already need not be written to the log again.
		result, err := c.commit(ctx, c.abridge(submission), id)
		if err != nil || result.Refused == nil || result.Refused.Code != state.ContentGone {
			return result, err
		}
	}
	return c.commit(ctx, command, id)
}

func (c *cluster) abridge(submission state.SubmitJob) state.SubmitJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Abridge(submission)
}

func (c *cluster) commit(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	if err := c.allow(command); err != nil {
		return state.Result{}, err
	}
	entry, err := state.Encode(command, id, time.Now().UnixMilli())
	if err != nil {
		return state.Result{}, err
	}
	c.replacing.RLock()
	defer c.replacing.RUnlock()
	if startsWork(command) {
		if err := c.peer.Room(len(entry)); err != nil {
			return state.Result{}, err
		}
	}
	answer, err := c.peer.Propose(ctx, entry)
	if err != nil {
		return state.Result{}, err
	}
	result, ok := answer.(state.Result)
	if !ok {
		return state.Result{}, fmt.Errorf("the log answered %T to a command", answer)
	}
	return result, nil
}

// startsWork tells the commands that a disk with little room left refuses, so
// that what was accepted can still be brought to its end.
func startsWork(command state.Command) bool {
	switch command.(type) {
	case state.SubmitJob, *state.SubmitJob, state.PlaceJobs, *state.PlaceJobs, state.ApplyPolicy, *state.ApplyPolicy,
		state.ChangeAccounts, *state.ChangeAccounts:
		return true
	}
	return false
}

// Follow delivers changes from now on.
func (c *cluster) Follow() (<-chan api.Change, *state.View, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes, stop := c.feed.follow()
	return changes, c.state.View(), stop
}

// The peer, as the api sees it.

func (c *cluster) IsLeader() bool       { return c.peer.IsLeader() }
func (c *cluster) Leader() string       { return c.peer.Leader() }
func (c *cluster) Name() string         { return c.peer.Name() }
func (c *cluster) Term() uint64         { return c.peer.Term() }
func (c *cluster) AppliedIndex() uint64 { return c.peer.AppliedIndex() }
func (c *cluster) CommitIndex() uint64  { return c.peer.CommitIndex() }

func (c *cluster) LastContact() time.Duration { return c.peer.LastContact() }

// begin and end enclose a reign.
func (c *cluster) begin(term uint64) {
	over := make(chan struct{})
	c.over.Store(&over)
	c.reign.Store(term)
}

func (c *cluster) end() {
	c.reign.Store(0)
	close(*c.over.Load())
}

// Over implements api.Cluster.
func (c *cluster) Over() <-chan struct{} {
	if over := c.over.Load(); over != nil {
		return *over
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Confirm implements api.Cluster. It counts for the term in which the loops
// were begun only: a peer that lost the lead and has it again may lack what
// was committed between.
func (c *cluster) Confirm(ctx context.Context) error {
	term := c.reign.Load()
	if term == 0 {
		return replica.ErrNotLeader
	}
	return c.peer.Confirm(ctx, term)
}

// fatal tells which errors of Apply stop this peer.
func fatal(err error) bool {
	return errors.Is(err, state.ErrUnknownCommand) || errors.Is(err, state.ErrCorruptCommand)
}
