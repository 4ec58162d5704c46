package replica

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// confirmer asks the other voters whether this peer still leads. raft's own
// VerifyLeader also counts answers to questions sent before it was called;
// after a pause of the process those may be older than another peer's election.
// Here an answer counts only for callers that came before the question was
// sent.
//
// Each caller gets a number. Each other voter is asked one thing at a time, and
// its answer serves every number given out until the question was sent: one
// round serves all that wait.
type confirmer struct {
	raft      *raft.Raft
	transport raft.Transport
	self      raft.ServerID
	limit     time.Duration // how long an answer may take

	mu      sync.Mutex
	term    uint64 // that the numbers below are of
	asked   uint64
	heard   map[raft.ServerID]uint64 // the highest number that a voter has answered for
	asking  map[raft.ServerID]bool
	waiting map[*confirmation]struct{}
}

// confirmation is one caller that waits.
type confirmation struct {
	number uint64
	done   chan error
}

func newConfirmer(r *raft.Raft, transport raft.Transport, self string, limit time.Duration) *confirmer {
	return &confirmer{raft: r, transport: transport, self: raft.ServerID(self), limit: limit,
		heard: make(map[raft.ServerID]uint64), asking: make(map[raft.ServerID]bool), waiting: make(map[*confirmation]struct{})}
}

// Confirm returns nil when a majority of the voters has said, after Confirm
// was called, that this peer leads in the given term. A lone voter confirms
// itself.
func (p *Peer) Confirm(ctx context.Context, term uint64) error {
	if err := p.fsm.failure(); err != nil {
		return err
	}
	return p.confirmer.confirm(ctx, term)
}

func (c *confirmer) confirm(ctx context.Context, term uint64) error {
	if voters := c.voters(); len(voters.others) > 0 {
		if err := c.wait(ctx, term, voters.others); err != nil {
			return err
		}
	}
	// Terms only rise: if it holds now, it held when the others answered.
	if c.raft.CurrentTerm() != term || c.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	return nil
}

// voters are the peers that vote. A configuration that is not committed yet
// counts already, as it does for raft.
type voters struct {
	others   []raft.Server
	self     bool // this peer votes too
	majority int
}

func (c *confirmer) voters() (v voters) {
	for _, server := range c.raft.GetConfiguration().Configuration().Servers {
		switch {
		case server.Suffrage != raft.Voter:
		case server.ID == c.self:
			v.self = true
		default:
			v.others = append(v.others, server)
		}
	}
	v.majority = len(v.others)/2 + 1
	if v.self {
		v.majority = (len(v.others)+1)/2 + 1
	}
	return v
}

func (c *confirmer) wait(ctx context.Context, term uint64, others []raft.Server) error {
	waiter := c.enter(term, others)
	if waiter == nil {
		return ErrNotLeader
	}
	defer c.leave(waiter)
	timer := time.NewTimer(c.limit)
	defer timer.Stop()
	select {
	case err := <-waiter.done:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: no majority of the %d controllers answered within %v", ErrNotLeader, len(others)+1, c.limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter gives out a number, and makes sure that all others are being asked.
func (c *confirmer) enter(term uint64, others []raft.Server) *confirmation {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case term < c.term:
		return nil
	case term > c.term:
		c.fail(ErrNotLeader)
		c.term = term
		clear(c.heard)
	}
	c.asked++
	waiter := &confirmation{number: c.asked, done: make(chan error, 1)}
	c.waiting[waiter] = struct{}{}
	for _, server := range others {
		if !c.asking[server.ID] {
			c.asking[server.ID] = true
			go c.ask(server)
		}
	}
	return waiter
}

func (c *confirmer) leave(waiter *confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, waiter)
}

// fail answers all callers that wait. c.mu is held.
func (c *confirmer) fail(err error) {
	for waiter := range c.waiting {
		waiter.done <- err
		delete(c.waiting, waiter)
	}
}

// ask asks one other peer as long as a caller waits for its answer. A peer that
// cannot be reached is asked again after a while, for callers that came since.
func (c *confirmer) ask(server raft.Server) {
	for {
		c.mu.Lock()
		number, term := c.asked, c.term
		if len(c.waiting) == 0 || c.heard[server.ID] >= number {
			c.asking[server.ID] = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		answer, err := c.heartbeat(server, term)
		if err != nil {
			time.Sleep(c.limit / 10)
			continue
		}
		c.hear(server.ID, number, term, answer)
	}
}

// heartbeat is raft's own message: it says which peer leads in a term, and
// carries nothing.
func (c *confirmer) heartbeat(server raft.Server, term uint64) (raft.AppendEntriesResponse, error) {
	address := c.transport.EncodePeer(c.self, c.transport.LocalAddr())
	request := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(c.self), Addr: address},
		Term:      term,
	}
	var answer raft.AppendEntriesResponse
	err := c.transport.AppendEntries(server.ID, server.Address, &request, &answer)
	return answer, err
}

// hear notes an answer and tells the callers that a majority has answered.
func (c *confirmer) hear(id raft.ServerID, number, term uint64, answer raft.AppendEntriesResponse) {
	v := c.voters()
	c.mu.Lock()
	defer c.mu.Unlock()
	if term != c.term {
		return
	}
	if answer.Term > term || !answer.Success {
		c.fail(ErrNotLeader)
		return
	}
	c.heard[id] = number
	var confirmed []uint64
	if v.self {
		confirmed = append(confirmed, c.asked)
	}
	for _, server := range v.others {
		confirmed = append(confirmed, c.heard[server.ID])
	}
	if len(confirmed) < v.majority {
		return
	}
	slices.Sort(confirmed)
	upTo := confirmed[len(confirmed)-v.majority]
	for waiter := range c.waiting {
		if waiter.number <= upTo {
			waiter.done <- nil
			delete(c.waiting, waiter)
		}
	}
}
