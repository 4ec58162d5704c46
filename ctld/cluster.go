package ctld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// cluster joins the state machine to the log that feeds it: commands go in
// through Propose, Views come out, and followers are told of each change.
type cluster struct {
	mu    sync.Mutex
	state *state.State

	// replacing is locked for writing while another state is put in place, and
	// for reading by those who propose.
	replacing sync.RWMutex
	// replaced signals that another state is in force.
	replaced chan struct{}

	log  *slog.Logger
	peer *replica.Peer
	feed *feed
	// leadership is the term in which this peer leads and has applied all that was
	// committed before; 0 when it does not.
	leadership atomic.Uint64
	over       atomic.Pointer[chan struct{}] // closed at the end of that leadership
	behind     atomic.Pointer[string]        // the controllers that keep the feature level from being raised, each with what is wrong; nil while they were not asked
	// revoked signals that certificates were revoked, or may have been.
	revoked chan struct{}
}

func newCluster(log *slog.Logger) *cluster {
	return &cluster{state: state.New(), feed: newFeed(), replaced: make(chan struct{}, 1), revoked: make(chan struct{}, 1), log: log}
}

// View is the state as it is now.
func (c *cluster) View() *state.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.View()
}

// Remembered returns the answer to a request that was applied before.
func (c *cluster) Remembered(id state.RequestID, kind state.Kind) (state.Result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Remembered(id, kind)
}

// Propose commits a command and returns what it did. For a request id that was
// applied before it returns the former result.
func (c *cluster) Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	if short := c.abridge(command); short != nil {
		result, err := c.commit(ctx, short, id)
		if err != nil || result.Refused == nil || result.Refused.Code != state.ContentGone {
			return result, err
		}
	}
	return c.commit(ctx, command, id)
}

// abridge leaves out what the state has already: the log need not carry it. nil = nothing
// can be left out of such a command.
func (c *cluster) abridge(command state.Command) state.Command {
	switch command := command.(type) {
	case state.SubmitJob:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.state.Abridge(command)
	case state.RegisterNode:
		return c.View().AbridgeRegistration(command)
	}
	return nil
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

// startsWork reports whether a disk with little room left refuses a command, so
// that accepted work can still be finished.
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

// begin and end enclose a leadership.
func (c *cluster) begin(term uint64) {
	over := make(chan struct{})
	c.over.Store(&over)
	c.leadership.Store(term)
}

func (c *cluster) end() {
	c.leadership.Store(0)
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

// Confirm implements api.Cluster. It counts only for the term in which the
// loops were begun: a peer that lost the lead and has it again may lack what
// was committed in between.
func (c *cluster) Confirm(ctx context.Context) error {
	term := c.leadership.Load()
	if term == 0 {
		return replica.ErrNotLeader
	}
	return c.peer.Confirm(ctx, term)
}

// fatal reports whether an error of Apply stops this peer.
func fatal(err error) bool {
	return errors.Is(err, state.ErrUnknownCommand) || errors.Is(err, state.ErrCorruptCommand)
}

// noteRevoked starts a look at the connections on which certificates were
// shown.
func (c *cluster) noteRevoked() {
	select {
	case c.revoked <- struct{}{}:
	default:
	}
}
