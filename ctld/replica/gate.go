package replica

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// errWaiting is what raft hears from a peer that waits to be added.
var errWaiting = errors.New("this controller waits to be added")

// gate keeps raft away from a peer that joins. A peer whose disk was replaced
// is in the configuration with a vote, but has forgotten its votes and what it
// had on disk. If it counted as the former one, it could elect a leader that
// lacks accepted entries, or trust a deposed leader. So nothing passes until
// the leader that has taken its vote away opens the gate, then only the log of
// that leader's term and later ones, and all of raft after the peer has caught
// up.
type gate struct {
	around
	consumer chan raft.RPC
	closing  chan struct{}
	once     sync.Once

	mu       sync.Mutex
	least    uint64 // term whose log is let in; 0 = none
	admitted bool
}

func newGate(transport raft.Transport) *gate {
	g := &gate{around: around{transport}, consumer: make(chan raft.RPC), closing: make(chan struct{})}
	go g.pass()
	return g
}

// Consumer implements raft.Transport.
func (g *gate) Consumer() <-chan raft.RPC { return g.consumer }

// SetHeartbeatHandler implements raft.Transport.
func (g *gate) SetHeartbeatHandler(handle func(raft.RPC)) {
	if handle == nil {
		g.Transport.SetHeartbeatHandler(nil)
		return
	}
	g.Transport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if g.refuses(rpc) {
			rpc.Respond(nil, errWaiting)
			return
		}
		handle(rpc)
	})
}

// Close implements raft.WithClose.
func (g *gate) Close() error {
	g.once.Do(func() { close(g.closing) })
	return g.around.Close()
}

func (g *gate) pass() {
	for {
		select {
		case rpc := <-g.Transport.Consumer():
			if g.refuses(rpc) {
				rpc.Respond(nil, errWaiting)
				continue
			}
			select {
			case g.consumer <- rpc:
			case <-g.closing:
				return
			}
		case <-g.closing:
			return
		}
	}
}

func (g *gate) refuses(rpc raft.RPC) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admitted {
		return false
	}
	switch command := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		return g.least == 0 || command.Term < g.least
	case *raft.InstallSnapshotRequest:
		return g.least == 0 || command.Term < g.least
	}
	return true
}

// Joining reports whether this peer waits to be added, or is catching up.
func (p *Peer) Joining() bool {
	if p.gate == nil {
		return false
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return !p.gate.admitted
}

// CatchUp opens a peer that joins for the log of a term and of later ones. The
// leader of that term must have committed that this peer has no vote.
func (p *Peer) CatchUp(term uint64) error {
	if p.gate == nil {
		return nil
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if term == 0 || term < p.gate.least {
		return fmt.Errorf("%w: this controller follows term %d already, and was told to follow %d", ErrMember, p.gate.least, term)
	}
	p.gate.least = term
	return nil
}

// Admit makes a peer that has caught up a full member: from now on it votes.
// keep is called first, to record it on disk.
func (p *Peer) Admit(keep func() error) error {
	if !p.Joining() {
		return nil
	}
	if p.AppliedIndex() == 0 {
		return fmt.Errorf("%w: this controller has caught up with nothing yet", ErrMember)
	}
	if err := keep(); err != nil {
		return err
	}
	settings := p.raft.ReloadableConfig()
	settings.HeartbeatTimeout, settings.ElectionTimeout = p.options.ElectionTimeout, p.options.ElectionTimeout
	if err := p.raft.ReloadConfig(settings); err != nil {
		return fmt.Errorf("begin to take part: %w", err)
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.gate.admitted = true
	return nil
}
