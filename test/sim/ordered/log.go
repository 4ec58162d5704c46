package ordered

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// orderedLog stands in the place of raft: one list of committed entries, and
// who leads. It promises what raft does and nothing more: an entry that was
// answered is on a majority; one that was not may be committed later or never;
// a leader may not know for a while that it is none any more.
type orderedLog struct {
	w        *World
	term     uint64
	leader   *controller // nil while there is none
	entries  []entry     // committed
	flight   []*proposal // of the leader, in order, not committed yet
	again    bool        // commit is planned for when a majority may be back
	looking  bool        // an election is planned
	proposed uint64
}

type entry struct {
	bytes []byte
	term  uint64
}

// proposal is an entry that waits for a majority.
type proposal struct {
	number   uint64
	bytes    []byte
	term     uint64
	task     *task
	due      time.Duration // not committed before
	reached  bool          // some other peer may have it
	answered bool
	result   state.Result
	err      error
}

func (p *proposal) answer(w *World, result state.Result, err error) {
	if p.answered {
		return
	}
	p.answered, p.result, p.err = true, result, err
	if p.task != nil {
		w.wake(p.task)
	}
}

// proposeLimit is after how long whoever proposed gives up.
const proposeLimit = 30 * time.Second

// propose waits inside a task for the outcome.
func (l *orderedLog) propose(c *controller, bytes []byte) (state.Result, error) {
	if !c.believes {
		return state.Result{}, replica.ErrNotLeader
	}
	l.proposed++
	p := &proposal{number: l.proposed, bytes: bytes, term: c.term, task: l.w.current}
	c.pending[p] = struct{}{}
	defer delete(c.pending, p)
	if l.leader == c {
		l.flight = append(l.flight, p)
		p.reached = l.reachesSome(c)
		p.due = l.w.now + l.diskDelay(c)
		if n := len(l.flight); n > 1 {
			p.due = max(p.due, l.flight[n-2].due)
		}
		l.w.after(p.due-l.w.now, l.commit)
	}
	c.after(proposeLimit, func() { p.answer(l.w, state.Result{}, fmt.Errorf("%w: no majority", replica.ErrUncertain)) })
	for !p.answered {
		l.w.wait()
	}
	return p.result, p.err
}

// diskDelay is how long a commit takes: a write at the majority and the way
// there and back.
func (l *orderedLog) diskDelay(c *controller) time.Duration {
	d := between(l.w.rng, 300*time.Microsecond, 3*time.Millisecond) + 2*l.w.net.delay()
	if c.slowDisk > 0 {
		d += time.Duration(l.w.rng.Int64N(int64(c.slowDisk)))
	}
	return d
}

func (l *orderedLog) reachesSome(c *controller) bool {
	for _, other := range l.w.controllers {
		if other != c && other.runs() && l.w.net.open(c.place, other.place) {
			return true
		}
	}
	return false
}

// hasMajority says whether a controller runs and can talk with a majority.
func (l *orderedLog) hasMajority(c *controller) bool {
	if !c.runs() {
		return false
	}
	n := 0
	for _, other := range l.w.controllers {
		if other == c || other.runs() && l.w.net.both(c.place, other.place) {
			n++
		}
	}
	return n > len(l.w.controllers)/2
}

// commit commits what is in flight and due, if there is a majority for it.
func (l *orderedLog) commit() {
	c := l.leader
	if c == nil || len(l.flight) == 0 || l.flight[0].due > l.w.now {
		return
	}
	if !l.hasMajority(c) {
		for _, p := range l.flight {
			p.reached = p.reached || c.runs() && l.reachesSome(c)
		}
		if !l.again {
			l.again = true
			l.w.after(200*time.Millisecond, func() { l.again = false; l.commit() })
		}
		return
	}
	n := 0
	for n < len(l.flight) && l.flight[n].due <= l.w.now {
		n++
	}
	batch := l.flight[:n]
	l.flight = l.flight[n:]
	c.together(func() {
		for _, p := range batch {
			l.entries = append(l.entries, entry{p.bytes, p.term})
			c.stored = len(l.entries)
			p.answer(l.w, c.applyNext(), nil)
		}
	})
	l.w.strike()
	l.spread()
}

// spread stores what is committed at all that can be reached, and has them
// apply it later.
func (l *orderedLog) spread() {
	c := l.leader
	for _, other := range l.w.controllers {
		if c == nil || other == c || !other.runs() || !l.w.net.both(c.place, other.place) {
			continue
		}
		other.stored = len(l.entries)
		other.catchUp()
	}
}

// confirm waits inside a task until a majority has said, after it was called,
// that this controller leads.
func (l *orderedLog) confirm(c *controller) error {
	if !c.believes {
		return replica.ErrNotLeader
	}
	t, term := l.w.current, c.term
	answered, ok := false, false
	l.w.after(l.w.net.delay(), func() {
		// This is the moment that the answer speaks of.
		ok = l.leader == c && l.term == term && l.hasMajority(c)
		wait := l.w.net.delay()
		if !ok {
			wait += between(l.w.rng, 0, 2*time.Second)
		}
		l.w.after(wait, func() { answered = true; l.w.wake(t) })
	})
	for !answered {
		l.w.wait()
	}
	if !ok || !c.believes || c.term != term {
		return replica.ErrNotLeader
	}
	return nil
}
