package replica

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// Restore replaces the state, on every peer, by one that an Image's Persist
// wrote: size bytes of it. It returns when a majority has it. Commands that are
// proposed meanwhile and not yet committed return ErrUncertain. Only the leader
// can restore. The caller has read the bytes once before: a state that
// Machine.Restore refuses stops the peer.
func (p *Peer) Restore(ctx context.Context, size int64, state io.Reader) error {
	if err := p.fsm.failure(); err != nil {
		return err
	}
	done, ended := make(chan error, 1), make(chan struct{})
	if !p.restore.CompareAndSwap(nil, &ended) {
		return ErrRestoring
	}
	p.fsm.restoring.Store(true)
	go func() {
		defer func() {
			p.fsm.restoring.Store(false)
			p.restore.Store(nil)
			close(ended)
		}()
		// The index is that of the log, whatever the state had; raft counts on
		// from the higher of the two.
		done <- p.raft.Restore(&raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Size: size}, state, 0)
	}()
	select {
	case err := <-done:
		return translate(err)
	case <-p.fsm.failed:
		return fmt.Errorf("%w: %w", ErrUncertain, p.fsm.failure())
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
}

// restoreEndLimit bounds the wait for a restore when the peer is closed.
const restoreEndLimit = 10 * time.Second

// awaitRestore waits for a restore that is under way: raft panics when it is
// shut down in the middle of one.
func (p *Peer) awaitRestore() {
	if ended := p.restore.Load(); ended != nil {
		select {
		case <-*ended:
		case <-time.After(restoreEndLimit):
		}
	}
}
