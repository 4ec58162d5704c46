package ordered

import (
	"math/rand/v2"
	"time"
)

// place is something the network connects: a controller, a node, the clients.
type place int

// network says who can reach whom. A way may be closed in one direction.
type network struct {
	w      *World
	closed map[[2]place]int // how many faults close it
	slow   time.Duration    // added to every message while the network is slow
	waits  []*conn          // with messages that wait for a way to open
}

func (n *network) open(from, to place) bool { return n.closed[[2]place{from, to}] == 0 }

func (n *network) both(a, b place) bool { return n.open(a, b) && n.open(b, a) }

func (n *network) cut(from, to place) { n.closed[[2]place{from, to}]++ }

// mend undoes one cut, and lets go what waits.
func (n *network) mend(from, to place) {
	if n.closed[[2]place{from, to}]--; n.closed[[2]place{from, to}] <= 0 {
		delete(n.closed, [2]place{from, to})
	}
	waits := n.waits
	n.waits = nil
	for _, c := range waits {
		c.waiting = false
		c.down.flush()
		c.up.flush()
	}
}

// delay is how long one message takes: as a rule under a millisecond, now and
// then a second.
func (n *network) delay() time.Duration {
	d := time.Duration(100+n.w.rng.IntN(900)) * time.Microsecond
	if n.w.rng.IntN(200) == 0 {
		d += time.Duration(n.w.rng.IntN(1000)) * time.Millisecond
	}
	if n.slow > 0 {
		d += time.Duration(n.w.rng.Int64N(int64(n.slow)))
	}
	return d
}

// conn is a connection of a node to a controller, perhaps by way of another
// one: two ordered streams. What is under way when it ends is lost.
type conn struct {
	w       *World
	id      uint64
	hops    []place // from the node to the controller that leads
	up      stream  // to the controller
	down    stream  // to the node
	waiting bool
}

// stream carries messages one way, in their order.
type stream struct {
	c       *conn
	reverse bool // against the order of hops
	queue   []func()
	busy    bool // the first of the queue is under way
	closed  bool // the receiving end takes nothing more
}

func (w *World) newConn(hops ...place) *conn {
	w.conns++
	c := &conn{w: w, id: w.conns, hops: hops}
	c.up.c, c.down.c, c.down.reverse = c, c, true
	return c
}

// send has do called at the other end, after all that was sent before.
func (s *stream) send(do func()) {
	s.queue = append(s.queue, do)
	s.flush()
}

func (s *stream) flush() {
	if s.busy || len(s.queue) == 0 {
		return
	}
	s.busy = true
	s.c.w.after(s.c.w.net.delay(), s.deliver)
}

// deliver hands over all that is queued, if the way is open. Otherwise it
// waits: the transport sends again until the connection ends.
func (s *stream) deliver() {
	s.busy = false
	if !s.c.passes(s.reverse) {
		if !s.c.waiting {
			s.c.waiting = true
			s.c.w.net.waits = append(s.c.w.net.waits, s.c)
		}
		return
	}
	queue := s.queue
	s.queue = nil
	for _, do := range queue {
		if !s.closed {
			do()
		}
	}
}

// passes says whether every hop is open in that direction.
func (c *conn) passes(reverse bool) bool {
	for i := 1; i < len(c.hops); i++ {
		from, to := c.hops[i-1], c.hops[i]
		if reverse {
			from, to = to, from
		}
		if !c.w.net.open(from, to) {
			return false
		}
	}
	for _, hop := range c.hops[1 : len(c.hops)-1] {
		if via := c.w.controllerAt(hop); via == nil || !via.runs() {
			return false
		}
	}
	return true
}

// pick is one of some, by chance.
func pick[T any](rng *rand.Rand, some []T) T { return some[rng.IntN(len(some))] }

// between is a duration of that range, by chance.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}
