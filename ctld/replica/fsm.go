package replica

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// outcome is the result of one command.
type outcome struct {
	result any
	err    error
}

// fsm joins a Machine to raft. After a fatal error it applies nothing more:
// raft has no way to refuse an entry, so the peer as a whole stops.
type fsm struct {
	machine Machine
	fatal   func(error) bool

	// restoring: raft panics when the state machine refuses a state; the peer
	// is stopped instead.
	restoring atomic.Bool

	failed chan struct{}
	mu     sync.Mutex
	cause  error
}

func newFSM(machine Machine, fatal func(error) bool) *fsm {
	return &fsm{machine: machine, fatal: fatal, failed: make(chan struct{})}
}

func (f *fsm) Apply(log *raft.Log) any {
	if err := f.failure(); err != nil {
		return outcome{err: err}
	}
	result, err := f.machine.Apply(log.Index, log.Data)
	if err != nil && f.fatal(err) {
		err = fmt.Errorf("log entry %d cannot be applied: %w", log.Index, err)
		f.fail(err)
	}
	return outcome{result: result, err: err}
}

// ApplyBatch implements raft.BatchingFSM.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	apply := func() {
		for i, log := range logs {
			if log.Type == raft.LogCommand {
				answers[i] = f.Apply(log)
			}
		}
	}
	if batcher, ok := f.machine.(Batcher); ok {
		batcher.ApplyBatch(apply)
	} else {
		apply()
	}
	return answers
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return image{f.machine.Capture()}, nil
}

func (f *fsm) Restore(reader io.ReadCloser) error {
	defer reader.Close()
	if err := f.machine.Restore(reader); err != nil {
		// A newer program's file is not damaged.
		if f.fatal(err) {
			err = fmt.Errorf("snapshot cannot be read: %w", err)
		} else {
			err = fmt.Errorf("%w: snapshot cannot be read: %w", ErrDamaged, err)
		}
		f.fail(err)
		if f.restoring.Load() {
			return nil
		}
		return err
	}
	return nil
}

func (f *fsm) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause == nil {
		f.cause = err
		close(f.failed)
	}
}

func (f *fsm) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// image writes a captured state into raft's snapshot.
type image struct {
	Image
}

func (i image) Persist(sink raft.SnapshotSink) error {
	paced := &pacedWriter{out: sink, sync: func() error { return nil }, begun: time.Now()}
	if clean, ok := sink.(*cleanSink); ok {
		paced.sync = clean.sync
	}
	if err := i.Image.Persist(paced); err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot %s: %w", sink.ID(), err)
	}
	return sink.Close()
}

func (i image) Release() {}
