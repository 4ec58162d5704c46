// Package replica keeps a state machine the same on every controller: a raft
// log and snapshots on disk, and the leadership.
//
// Contract: when Propose returns without an error, the command is on the disks
// of a majority of the peers and has been applied here. A cluster of one peer
// is an ordinary cluster whose majority is one. Damage on disk is noticed
// before anything is applied from it, and Open fails with a message that names
// the file: it never continues from half a state. A full disk refuses commands
// before they are written, new work first. One data directory belongs to one
// process, which holds a lock on it.
//
// The package knows nothing of jobs: commands are bytes, the state machine is
// the caller's (Machine).
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Machine is the state machine. Apply, Capture and Restore are never called
// at the same time.
type Machine interface {
	// Apply changes the state by one command. An error that Options.Fatal
	// calls fatal stops the peer; any other is the command's result.
	Apply(index uint64, command []byte) (any, error)
	// Capture returns the state as it is now, quickly; it is written
	// afterwards, while Apply continues.
	Capture() Image
	// Restore replaces the state with one that Image.Persist wrote.
	Restore(io.Reader) error
}

// Batcher is an optional interface of a Machine: it is told which commands are
// applied together, one after the other and before any of them is answered, so
// that it can do common work once.
type Batcher interface {
	// ApplyBatch calls apply, which calls Machine.Apply for each.
	ApplyBatch(apply func())
}

// Image is the state at one moment.
type Image interface {
	Persist(io.Writer) error
}

// Errors of this package.
var (
	// ErrLocked is returned when another process uses the data directory.
	ErrLocked = errors.New("data directory in use")
	// ErrDamaged is returned when a file is not as it was written.
	ErrDamaged = errors.New("damaged file")
	// ErrFull is returned when the disk of the data directory is full: the
	// command was not written.
	ErrFull = errors.New("the controller's disk is full")
	// ErrForeign is returned when the directory is that of other peers.
	ErrForeign = errors.New("another cluster")
	// ErrMember is returned when the members of the cluster cannot be changed
	// as requested.
	ErrMember = errors.New("members not changed")
	// ErrNotLeader is returned when another peer leads, or none does yet.
	ErrNotLeader = errors.New("not the leader")
	// ErrUncertain is returned when a command may or may not have been
	// committed; asked again with the same request id it takes effect once.
	ErrUncertain = errors.New("outcome not known")
	// ErrRestoring is returned when another state is being put in place already.
	ErrRestoring = errors.New("another restore is under way")
	// ErrStopped is returned after the peer has stopped.
	ErrStopped = errors.New("peer stopped")
)

// enqueueTimeout bounds the wait for room in raft's queue.
const enqueueTimeout = 5 * time.Second

// Peer is one running peer.
type Peer struct {
	name    string
	raft    *raft.Raft
	fsm     *fsm
	log     *logFile
	lock    *os.File
	metrics *metrics
	// snapshots are listed only: raft writes them.
	snapshots raft.SnapshotStore
	gate      *gate // nil unless it joins
	options   Options
	address   string // that other peers dial

	transport raft.Transport
	confirmer *confirmer
	contact   *contact

	restore atomic.Pointer[chan struct{}] // closed when the one under way ends
	closing sync.Once
	closed  error
}

// Open starts a peer on its directory; an empty directory becomes a cluster
// of one, or with Join waits to be added to one. It returns before a leader is
// known: see Leadership.
func Open(o Options, machine Machine) (*Peer, error) {
	setDefaults(&o)
	lock, err := lockDirectory(o.Dir)
	if err != nil {
		return nil, err
	}
	peer, err := open(o, machine)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	peer.lock = lock
	return peer, nil
}

// Propose commits a command and returns what Machine.Apply returned for it.
// Commands proposed at the same time share one write to disk. When ctx ends
// first the answer is ErrUncertain: the command may still be committed. With
// ErrFull it was not written.
func (p *Peer) Propose(ctx context.Context, command []byte) (any, error) {
	if err := p.fsm.failure(); err != nil {
		return nil, err
	}
	release, err := p.log.admit(len(command), ownRoom)
	if err != nil {
		return nil, err
	}
	defer release()
	begin := time.Now()
	future := p.raft.Apply(command, enqueueTimeout)
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, translate(err)
		}
	case <-p.fsm.failed:
		return nil, fmt.Errorf("%w: %w", ErrUncertain, p.fsm.failure())
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
	p.metrics.commit.Observe(time.Since(begin).Seconds())
	outcome, ok := future.Response().(outcome)
	if !ok {
		return nil, fmt.Errorf("raft answered %T to a command", future.Response())
	}
	return outcome.result, outcome.err
}

// Room refuses new work, with ErrFull, when the disk has room only for accepted
// work. bytes is the size of the command to come.
func (p *Peer) Room(bytes int) error {
	release, err := p.log.admit(bytes, newRoom)
	if err != nil {
		return err
	}
	release()
	return nil
}

// Barrier returns when everything committed before it has been applied here.
func (p *Peer) Barrier(timeout time.Duration) error {
	return translate(p.raft.Barrier(timeout).Error())
}

// Leadership delivers true when this peer becomes the leader and false when
// it ceases to be; a value not read in time is replaced by a newer one.
func (p *Peer) Leadership() <-chan bool { return p.raft.LeaderCh() }

// Failed is closed when the peer cannot continue; Failure says why.
func (p *Peer) Failed() <-chan struct{} { return p.fsm.failed }

// Failure is the reason why the peer cannot continue, or nil.
func (p *Peer) Failure() error { return p.fsm.failure() }

// IsLeader reports whether this peer leads.
func (p *Peer) IsLeader() bool { return p.raft.State() == raft.Leader }

// Leader is the name of the peer that leads, "" when none is known.
func (p *Peer) Leader() string {
	_, id := p.raft.LeaderWithID()
	return string(id)
}

// LeaderAddress is the peer that leads and where other peers dial it; "" and
// "" when none is known.
func (p *Peer) LeaderAddress() (name, address string) {
	at, id := p.raft.LeaderWithID()
	return string(id), string(at)
}

// Name is this peer's own name.
func (p *Peer) Name() string { return p.name }

// Term is raft's present term.
func (p *Peer) Term() uint64 { return p.raft.CurrentTerm() }

// AppliedIndex is the index of the last log entry applied here.
func (p *Peer) AppliedIndex() uint64 { return p.raft.AppliedIndex() }

// CommitIndex is the index up to which entries are known here to be committed.
func (p *Peer) CommitIndex() uint64 { return p.raft.CommitIndex() }

// LastIndex is the index of the last entry in this peer's log.
func (p *Peer) LastIndex() uint64 { return p.raft.LastIndex() }

// LastContact is how long ago this peer last heard from the leader: 0 when it
// leads, less than 0 when it never did.
func (p *Peer) LastContact() time.Duration {
	if p.IsLeader() {
		return 0
	}
	last := p.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last)
}

// Snapshot writes a snapshot now. With nothing new to write it does nothing.
func (p *Peer) Snapshot() error {
	err := p.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Close leaves raft, closes the files and unlocks the directory.
func (p *Peer) Close() error {
	p.closing.Do(func() {
		close(p.log.closing)
		p.awaitRestore()
		p.closed = errors.Join(p.raft.Shutdown().Error(), p.log.Close(), p.lock.Close())
	})
	return p.closed
}

func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrNotLeader
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	case errors.Is(err, raft.ErrRaftShutdown):
		return ErrStopped
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("the log's queue is full: %w", err)
	default:
		return err
	}
}
