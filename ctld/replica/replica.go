// Package replica keeps a state machine the same on every controller: a raft
// log and snapshots on disk, and who leads.
//
// Contract: when Propose returns without an error, the command is on the disks
// of a majority of the peers and has been applied here. A cluster of one peer
// is an ordinary cluster whose majority is one. What is damaged on disk is
// noticed before anything is applied from it, and the peer stops with a
// message that names the file: it never goes on from half a state. One data
// directory belongs to one process, which holds a lock on it.
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
	// afterwards, while Apply goes on.
	Capture() Image
	// Restore replaces the state with one that Image.Persist wrote.
	Restore(io.Reader) error
}

// Batcher is what a Machine may be besides: it is told which commands are
// applied together, one after the other and before any of them is answered,
// so that it can do once what one of them alone would need as well.
type Batcher interface {
	// Together calls apply, which calls Machine.Apply for each.
	Together(apply func())
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
	// ErrNotLeader is returned when another peer leads, or none does yet.
	ErrNotLeader = errors.New("not the leader")
	// ErrUncertain is returned when a command may or may not have been
	// committed; asked again with the same request id it takes effect once.
	ErrUncertain = errors.New("outcome not known")
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
	store   io.Closer
	lock    *os.File
	closing sync.Once
	closed  error
}

// Open starts a peer on its directory; an empty directory becomes a cluster
// of one. It returns before a leader is known: see Leadership.
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

func open(o Options, machine Machine) (*Peer, error) {
	logger := bridge(o.Logger)
	bolt, err := openLog(o.Dir)
	if err != nil {
		return nil, err
	}
	peer := &Peer{name: o.Name, store: bolt, fsm: newFSM(machine, o.Fatal)}
	fail := func(err error) (*Peer, error) {
		_ = bolt.Close()
		return nil, err
	}
	logs := &checkedLog{LogStore: bolt}
	files, err := raft.NewFileSnapshotStoreWithLogger(o.Dir, 2, logger)
	if err != nil {
		return fail(fmt.Errorf("open snapshots in %s: %w", o.Dir, err))
	}
	snapshots := &checkedSnapshots{SnapshotStore: files}
	if err := verify(o.Dir, logs, bolt, snapshots); err != nil {
		return fail(err)
	}
	config := raftConfig(o)
	config.Logger = logger
	if err := bootstrap(config, o, logs, bolt, snapshots); err != nil {
		return fail(err)
	}
	peer.raft, err = raft.NewRaft(config, peer.fsm, logs, bolt, snapshots, o.Transport)
	if err != nil {
		if cause := peer.fsm.failure(); cause != nil {
			err = cause
		}
		return fail(fmt.Errorf("start raft in %s: %w", o.Dir, err))
	}
	if err := peer.checkMember(); err != nil {
		_ = peer.raft.Shutdown().Error()
		return fail(err)
	}
	return peer, nil
}

func bootstrap(config *raft.Config, o Options, logs raft.LogStore, stable raft.StableStore, snapshots raft.SnapshotStore) error {
	exists, err := raft.HasExistingState(logs, stable, snapshots)
	if err != nil {
		return fmt.Errorf("look for an earlier state in %s: %w", o.Dir, err)
	}
	if exists {
		return nil
	}
	members := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: o.Transport.LocalAddr()}}}
	if err := raft.BootstrapCluster(config, logs, stable, snapshots, o.Transport, members); err != nil {
		return fmt.Errorf("begin a cluster in %s: %w", o.Dir, err)
	}
	return nil
}

// checkMember refuses to run under a name the cluster does not know: such a
// peer would wait for a leader for ever without a word.
func (p *Peer) checkMember() error {
	future := p.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return fmt.Errorf("read the cluster's members: %w", err)
	}
	var names []string
	for _, server := range future.Configuration().Servers {
		if string(server.ID) == p.name {
			return nil
		}
		names = append(names, string(server.ID))
	}
	return fmt.Errorf("this data directory belongs to a cluster of %q, and no peer of it is called %q: start with --name and one of those names", names, p.name)
}

// Propose commits a command and answers what Machine.Apply returned for it.
// Commands proposed at the same time share one write to disk. When ctx ends
// first the answer is ErrUncertain: the command may still be committed.
func (p *Peer) Propose(ctx context.Context, command []byte) (any, error) {
	if err := p.fsm.failure(); err != nil {
		return nil, err
	}
	future := p.raft.Apply(command, enqueueTimeout)
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, translate(err)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
	outcome, ok := future.Response().(outcome)
	if !ok {
		return nil, fmt.Errorf("raft answered %T to a command", future.Response())
	}
	return outcome.result, outcome.err
}

// Barrier returns when everything committed before it has been applied here.
func (p *Peer) Barrier(timeout time.Duration) error {
	return translate(p.raft.Barrier(timeout).Error())
}

// Leadership delivers true when this peer becomes the leader and false when
// it ceases to be; a value not read in time is replaced by a newer one.
func (p *Peer) Leadership() <-chan bool { return p.raft.LeaderCh() }

// Failed is closed when the peer can not go on; Failure says why.
func (p *Peer) Failed() <-chan struct{} { return p.fsm.failed }

// Failure is the reason why the peer can not go on, or nil.
func (p *Peer) Failure() error { return p.fsm.failure() }

// IsLeader reports whether this peer leads.
func (p *Peer) IsLeader() bool { return p.raft.State() == raft.Leader }

// Leader is the name of the peer that leads, "" when none is known.
func (p *Peer) Leader() string {
	_, id := p.raft.LeaderWithID()
	return string(id)
}

// Name is this peer's own name.
func (p *Peer) Name() string { return p.name }

// Term is raft's present term.
func (p *Peer) Term() uint64 { return p.raft.CurrentTerm() }

// AppliedIndex is the index of the last log entry applied here.
func (p *Peer) AppliedIndex() uint64 { return p.raft.AppliedIndex() }

// Snapshot writes a snapshot now. With nothing new to write it does nothing.
func (p *Peer) Snapshot() error {
	err := p.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Close leaves raft, closes the files and gives the directory free.
func (p *Peer) Close() error {
	p.closing.Do(func() {
		p.closed = errors.Join(p.raft.Shutdown().Error(), p.store.Close(), p.lock.Close())
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
