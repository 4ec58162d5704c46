package state

// Barrier changes nothing but log time. A new leader applies one to know that
// everything before it has been applied.
type Barrier struct{}

func (Barrier) kind() Kind { return KindBarrier }

func (Barrier) apply(*State, *Result) {}
