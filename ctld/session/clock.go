package session

import "time"

// nodeClock is how far a node's CLOCK_BOOTTIME is ahead of this controller's clock, as far
// as can be told from what the node has sent.
type nodeClock struct {
	known bool
	since time.Time     // a moment of the controller's clock
	boot  time.Duration // what the node's clock said then, at least
}

// NoteClock notes that something arrived at a time which the node sent when its
// CLOCK_BOOTTIME said so much. What was on the way for the shortest time tells most.
func (s *Session) NoteClock(sent time.Duration, arrived time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.clock
	if !c.known {
		c.known, c.since, c.boot = true, arrived, sent
		return
	}
	c.boot = max(c.boot, sent-arrived.Sub(c.since))
}

// Boottime is what the node's CLOCK_BOOTTIME says at a time. It is never more than that, and
// less by what the node's fastest message so far was on the way. 0 = not known.
func (s *Session) Boottime(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clock.known {
		return 0
	}
	return s.clock.boot + at.Sub(s.clock.since)
}
