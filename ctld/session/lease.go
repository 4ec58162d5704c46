package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ErrEnding is returned, and is the cause when a session is cut, while the
// leases of its node are being ended: what the node is granted meanwhile might
// no longer belong to it when it hears of it.
var ErrEnding = errors.New("the leases of this node are being ended, because it was silent for too long")

// nodeLease is what this controller granted a node.
type nodeLease struct {
	until  time.Time // when the longest that was granted ends, by the controller's clock
	ending bool      // between EndLeases and LeasesEnded
}

// Grant notes a lease that counts from a request which arrived at a time; the
// node counts from when it sent the request, which was earlier. It returns
// false when none may be granted now. Look up the node's allocations after this
// call, not before: it must not be granted what it loses meanwhile.
func (r *Registry) Grant(node string, arrived time.Time, length time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease := r.leases[node]
	if lease.ending {
		return false
	}
	if until := arrived.Add(length); until.After(lease.until) {
		lease.until = until
	}
	r.leases[node] = lease
	return true
}

// LeaseUntil is when the longest lease ends that this controller granted a
// node; the zero time when it granted none.
func (r *Registry) LeaseUntil(node string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[node].until
}

// EndLeases takes the right to end a node's leases, if none that this
// controller granted lasted until a time. From then until LeasesEnded the node
// is granted nothing.
func (r *Registry) EndLeases(node string, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease := r.leases[node]
	if r.entering[node] || lease.until.After(since) {
		return false
	}
	lease.ending = true
	r.leases[node] = lease
	return true
}

// Ending are the nodes whose leases are being ended, by name.
func (r *Registry) Ending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for node, lease := range r.leases {
		if lease.ending {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}

// LeasesEnded says that it is now known whether they ended. While that is not
// known, because the outcome of the command is uncertain, nothing may be
// granted.
func (r *Registry) LeasesEnded(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease := r.leases[node]
	lease.ending = false
	r.leases[node] = lease
}

// mayEnter refuses a registration while leases are being ended. r.mu is held.
func (r *Registry) mayEnter(node string) error {
	if r.leases[node].ending {
		return fmt.Errorf("%w: connect again in a moment", ErrEnding)
	}
	return nil
}

// SetFrozen notes the allocations that a node says it froze.
func (s *Session) SetFrozen(allocs []Alloc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = allocs[:min(len(allocs), maxAllocs)]
}

// Frozen are the allocations that the node froze, by its last report.
func (s *Session) Frozen() []Alloc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen
}

// SetLoad notes what the node says of its host's load; nil says that it cannot read it.
func (s *Session) SetLoad(load *pb.HostLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = load
}

// Load is the load of the node's host, by its last report.
func (s *Session) Load() *pb.HostLoad {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load
}

// CutFor ends the session for a reason; its node will connect again.
func (s *Session) CutFor(err error) { s.cut(err) }
