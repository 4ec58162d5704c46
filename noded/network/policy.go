package network

import "github.com/gleaner-hpc/gleaner/proto/spec"

// PortRange are ports of TCP or UDP; the zero value is all of them, and every protocol.
type PortRange struct{ First, Last uint16 }

// Policy is what a job may do with its way out.
type Policy struct {
	// Allow is where it may connect to; Closed says that this is nowhere if the list is
	// empty.
	Allow  []spec.Destination
	Closed bool
	// BytesPerSecond it may send, and may receive; 0 = as much as goes.
	BytesPerSecond uint64
}

// Anywhere says whether the destinations are not restricted.
func (p *Policy) Anywhere() bool { return len(p.Allow) == 0 && !p.Closed }

// Nowhere says whether there is no way out.
func (p *Policy) Nowhere() bool { return len(p.Allow) == 0 && p.Closed }
