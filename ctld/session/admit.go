package session

import (
	"fmt"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Admit lets a node register, until done is called: one registration of a node
// at a time, so that the one committed last belongs to the session that stays.
// A daemon that has a session may connect again. Another daemon of the same
// name, on a second machine or started twice, is refused as long as the first
// one reported within a lease.
func (r *Registry) Admit(register *pb.Register, lease time.Duration) (done func(), err error) {
	node := register.GetNode()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entering[node] {
		return nil, fmt.Errorf("%w, or is about to be: try again in a moment", ErrElsewhere)
	}
	if err := r.mayEnter(node); err != nil {
		return nil, err
	}
	if s := r.sessions[node]; s != nil && s.instance != register.GetInstance() && s.ctx.Err() == nil {
		if silent := r.now().Sub(r.seen[node]); silent < lease {
			return nil, fmt.Errorf("%w, by another gnoded on host %q: give each node a name of its own; if that one was switched off, wait %v",
				ErrElsewhere, s.host, (lease - silent).Round(time.Second))
		}
	}
	r.entering[node] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.entering, node)
	}, nil
}
