package replica

import (
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contact knows the members that the leader does not hear from, and logs that
// once.
type contact struct {
	logger *slog.Logger
	after  time.Duration // how long a silence must be to be logged

	mu   sync.Mutex
	lost map[raft.ServerID]*silence
}

// silence is the silence of one member.
type silence struct {
	heard time.Time // the zero time when it never spoke under this leader
	began time.Time
	said  bool
}

func newContact(r *raft.Raft, logger *slog.Logger, after time.Duration) *contact {
	c := &contact{logger: logger, after: after, lost: make(map[raft.ServerID]*silence)}
	// The filter sees each observation as raft makes it. Nothing is delivered.
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		c.observe(o.Data)
		return false
	}))
	return c
}

func (c *contact) observe(what any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what := what.(type) {
	case raft.FailedHeartbeatObservation:
		member := c.lost[what.PeerID]
		if member == nil {
			member = &silence{heard: what.LastContact, began: time.Now()}
			c.lost[what.PeerID] = member
		}
		if !member.said && time.Since(member.began) > c.after {
			member.said = true
			c.logger.Warn("a controller does not answer; look at gctld there, and at the network between", "peer", what.PeerID)
		}
	case raft.ResumedHeartbeatObservation:
		if member := c.lost[what.PeerID]; member != nil && member.said {
			c.logger.Info("a controller answers again", "peer", what.PeerID, "silent", time.Since(member.began).Round(time.Millisecond))
		}
		delete(c.lost, what.PeerID)
	case raft.PeerObservation:
		if what.Removed {
			delete(c.lost, what.Peer.ID)
		}
	case raft.RaftState:
		clear(c.lost)
	}
}

// Silent reports whether this peer, which leads, does not hear from a member,
// and when it last did; the zero time means never.
func (p *Peer) Silent(name string) (heard time.Time, silent bool) {
	p.contact.mu.Lock()
	defer p.contact.mu.Unlock()
	if member := p.contact.lost[raft.ServerID(name)]; member != nil {
		return member.heard, true
	}
	return time.Time{}, false
}
