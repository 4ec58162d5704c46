package ordered

import "github.com/gleaner-hpc/gleaner/test/sim/node"

// Broken says what of the models is broken on purpose, to see that the checks
// notice. What is broken in the real code is in package broken.
type Broken struct {
	// NeverConfirms: a controller answers reads and grants leases without the
	// word of a majority.
	NeverConfirms bool
	node.Broken
}
