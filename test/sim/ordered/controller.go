package ordered

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/leader"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// controller is one gctld: the real state machine and the real leader's steps
// over the ordered log.
type controller struct {
	process
	name  string
	place place

	// On its disk.
	stored   int    // entries of the log
	snapshot []byte // of the state after the first `saved` entries; nil = none
	saved    int

	// Lost at a crash.
	state    *state.State
	applied  int
	changed  []*state.Result
	leader   *leader.Leader
	believes bool      // that it leads
	term     uint64    // in which it believes so
	doubted  uint64    // the term of which it is about to learn that it is over
	leading  bool      // its loops run
	since    time.Time // from which on it counts the nodes' silence
	looked   time.Time // when it looked at the leases last
	memo     leader.Memo
	passes   int // scheduling passes that it made
	loops    [loopCount]loop
	pending  map[*proposal]struct{}
	links    map[*link]struct{}
	catching bool
	yields   map[*task]bool // steps that may be interrupted anywhere
	futile   map[state.Kind]futile

	wallOff  time.Duration // its wall clock is ahead by this
	rate     float64       // of its monotonic clock
	slowDisk time.Duration
	lag      time.Duration // a follower's, in applying
}

// boot starts the controller on what its disk has.
func (c *controller) boot() {
	c.process.start()
	c.state, c.applied = state.New(), 0
	if c.snapshot != nil {
		restored, err := state.Restore(bytes.NewReader(c.snapshot))
		if err != nil {
			c.w.fail("%s can not read its own snapshot: %v", c.name, err)
			return
		}
		c.state, c.applied = restored, c.saved
	}
	c.leader = leader.New(c, nil, slog.New(slog.DiscardHandler))
	c.leader.Sessions().SetClock(c.monotonic)
	c.believes, c.leading, c.catching, c.doubted = false, false, false, 0
	c.loops = [loopCount]loop{}
	c.pending = map[*proposal]struct{}{}
	c.yields, c.futile = map[*task]bool{}, map[state.Kind]futile{}
	c.memo = leader.Memo{}
	c.w.log.look()
	c.w.log.spreadSoon()
}

// monotonic is the clock that the leader's leases are timed by.
func (c *controller) monotonic() time.Time {
	return time.Unix(0, int64(float64(c.w.now)*c.rate))
}

// wall is the clock that stamps commands.
func (c *controller) wall() time.Time { return c.w.wall().Add(c.wallOff) }

// View implements leader.Cluster. A step may be interrupted before it looks,
// and between that and what it does with what it saw.
func (c *controller) View() *state.View {
	c.interrupt()
	view := c.state.View()
	c.interrupt()
	return view
}

// interrupt has a step that holds no lock wait a moment now and then, as a
// goroutine may.
func (c *controller) interrupt() {
	if !c.yields[c.w.current] || c.w.rng.IntN(8) > 0 {
		return
	}
	c.sleep(between(c.w.rng, 0, 3*time.Millisecond))
}

// Propose implements leader.Cluster: what ctld's cluster does, over the
// ordered log.
func (c *controller) Propose(_ context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	var short state.Command
	switch command := command.(type) {
	case state.SubmitJob:
		short = c.state.Abridge(command)
	case state.RegisterNode:
		short = c.View().AbridgeRegistration(command)
	}
	if short != nil {
		result, err := c.commit(short, id)
		if err != nil || result.Refused == nil || result.Refused.Code != state.ContentGone {
			return result, err
		}
	}
	return c.commit(command, id)
}

func (c *controller) commit(command state.Command, id state.RequestID) (state.Result, error) {
	entry, err := state.Encode(command, id, c.wall().UnixMilli())
	if err != nil {
		return state.Result{}, err
	}
	result, err := c.w.log.propose(c, entry)
	if err == nil && id == (state.RequestID{}) {
		c.noteProposal(command, &result)
	}
	return result, err
}

// Confirm waits until a majority has said that this controller leads.
func (c *controller) Confirm(context.Context) error {
	if c.w.broken.NeverConfirms && c.leading {
		return nil
	}
	return c.w.log.confirm(c)
}

// applyNext applies one more entry of the log.
func (c *controller) applyNext() state.Result {
	index := c.applied + 1
	result, err := c.state.Apply(uint64(index), c.w.log.entries[index-1].bytes)
	if err != nil {
		c.w.fail("%s can not apply entry %d: %v", c.name, index, err)
		return result
	}
	c.applied = index
	c.w.checkApplied(c, &result)
	if len(result.ChangedJobs)+len(result.ChangedNodes)+len(result.PurgedJobs) > 0 || result.PolicyChanged {
		c.changed = append(c.changed, &result)
	}
	return result
}

// together applies several entries and tells the leader's loops once.
func (c *controller) together(apply func()) {
	c.changed = nil
	apply()
	if len(c.changed) > 0 {
		c.leader.Changed(c.state.View(), c.changed)
	}
	c.poke()
}

func (c *controller) applyAll() {
	if c.applied < c.stored {
		c.together(func() {
			for c.applied < c.stored && c.w.failure == nil {
				c.applyNext()
			}
		})
	}
}

// catchUp has a follower apply what it has stored, some time later. One that
// is far behind is sent the leader's state in its place.
func (c *controller) catchUp() {
	if c.catching {
		return
	}
	c.catching = true
	delay := between(c.w.rng, time.Millisecond, 50*time.Millisecond)
	if c.lag > 0 {
		delay += between(c.w.rng, 0, c.lag)
	}
	c.after(delay, func() {
		c.catching = false
		if ahead := c.w.log.leader; ahead != nil && ahead != c && ahead.leading && c.stored-c.applied > farBehind {
			c.install(ahead)
		}
		c.applyAll()
		if c.applied-c.saved >= snapshotEvery {
			c.save()
		}
	})
}

const (
	snapshotEvery = 512 // entries
	farBehind     = 128
)

// save writes a snapshot to its disk.
func (c *controller) save() {
	c.snapshot, c.saved = c.persisted(), c.applied
}

// install takes over the state of another controller, as raft's InstallSnapshot
// does.
func (c *controller) install(from *controller) {
	image, index := from.persisted(), from.applied
	restored, err := state.Restore(bytes.NewReader(image))
	if err != nil {
		c.w.fail("%s can not read the snapshot of %s: %v", c.name, from.name, err)
		return
	}
	c.state, c.applied, c.snapshot, c.saved = restored, index, image, index
	c.stored = max(c.stored, index)
	c.w.trace(c.name, "takes over the state of %s at %d", from.name, index)
}

func (c *controller) persisted() []byte {
	var image bytes.Buffer
	if err := c.state.View().Persist(&image); err != nil {
		c.w.fail("%s can not write its state: %v", c.name, err)
	}
	return image.Bytes()
}

// digest names the state's content.
func (c *controller) digest() string { return fmt.Sprintf("%x", sha256.Sum256(c.persisted()))[:16] }

func (c *controller) pendingInOrder() []*proposal {
	all := make([]*proposal, 0, len(c.pending))
	for p := range c.pending {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *proposal) int { return cmp.Compare(a.number, b.number) })
	return all
}
