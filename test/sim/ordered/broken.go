package ordered

import (
	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/lease"
)

// Broken says what of the models is broken on purpose, to see that the checks
// notice.
type Broken struct {
	// ForgetsEarly: a node forgets a part's result before a controller has it.
	ForgetsEarly bool
}

// granted is how a shim takes in what a controller answered.
func (b *Broken) granted(l lease.Lease, g lease.Grant) lease.Lease { return l.Granted(g) }

// lists says whether a registration names a part: all but those whose results
// a controller has.
func (b *Broken) lists(p *part) bool {
	return p.life.State() != job.Acknowledged && !(b.ForgetsEarly && p.life.Over())
}
