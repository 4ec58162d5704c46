package ordered

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Bounds of the time in which the peers notice that they need a leader, and of
// that in which a deposed one may go on believing in itself. raft's are
// shorter; nothing may depend on that.
const (
	leastElection = 200 * time.Millisecond
	mostElection  = 2 * time.Second
	mostBelief    = 5 * time.Second
	longBelief    = 3 * time.Minute // of one in four
)

// look plans an election, which takes place if there is need of one then.
func (l *orderedLog) look() {
	if l.looking {
		return
	}
	l.looking = true
	l.w.after(between(l.w.rng, leastElection, mostElection), func() {
		l.looking = false
		l.elect()
	})
}

func (l *orderedLog) elect() {
	if l.leader != nil && l.hasMajority(l.leader) {
		l.doubtOthers()
		return
	}
	var candidates []*controller
	for _, c := range l.w.controllers {
		if l.hasMajority(c) && c.stored == len(l.entries) {
			candidates = append(candidates, c)
		}
	}
	if len(candidates) == 0 {
		l.doubtOthers()
		l.look()
		return
	}
	l.install(pick(l.w.rng, candidates))
}

// install makes a controller the leader of a new term. Of what the former had
// in flight a prefix may live on, as far as somebody else can have it.
func (l *orderedLog) install(c *controller) {
	if c.believes {
		l.lose(c)
	}
	l.term++
	l.leader = c
	l.w.Elections++
	flight := l.flight
	l.flight = nil
	kept := 0
	for kept < len(flight) && flight[kept].reached {
		kept++
	}
	kept = l.w.rng.IntN(kept + 1)
	for _, p := range flight[:kept] {
		l.entries = append(l.entries, entry{p.bytes, p.term})
	}
	c.stored = len(l.entries)
	l.w.trace(c.name, "is elected for term %d: log %d, of %d in flight %d live on", l.term, len(l.entries), len(flight), kept)
	c.win(l.term)
	l.doubtOthers()
	l.spread()
}

// transfer hands the lead to another peer that has everything.
func (l *orderedLog) transfer(to *controller) bool {
	if l.leader == nil || l.leader == to || !l.hasMajority(l.leader) || !l.hasMajority(to) || to.stored != len(l.entries) {
		return false
	}
	l.install(to)
	return true
}

// doubtOthers has every controller that wrongly believes that it leads notice,
// each in its own time.
func (l *orderedLog) doubtOthers() {
	for _, c := range l.w.controllers {
		if !c.runs() || !c.believes || c.doubted == c.term || c == l.leader && c.term == l.term && l.hasMajority(c) {
			continue
		}
		c.doubted = c.term
		term, most := c.term, mostBelief
		if l.w.rng.IntN(4) == 0 {
			most = longBelief
		}
		c.after(between(l.w.rng, 0, most), func() {
			c.doubted = 0
			if c.believes && c.term == term && (l.leader != c || !l.hasMajority(c)) {
				l.lose(c)
			}
		})
	}
}

// lose tells a controller that it does not lead any more.
func (l *orderedLog) lose(c *controller) {
	if l.leader == c {
		// Without a majority it gives up by itself; what is in flight may
		// still be found by its successor.
		l.leader = nil
		l.look()
	}
	c.resign()
	for _, p := range c.pendingInOrder() {
		p.answer(l.w, state.Result{}, fmt.Errorf("%w: leadership lost", replica.ErrUncertain))
	}
}

// spreadSoon has those that could not be reached get what they miss.
func (l *orderedLog) spreadSoon() {
	l.w.after(l.w.net.delay(), func() {
		if l.leader != nil {
			l.spread()
		}
	})
}
