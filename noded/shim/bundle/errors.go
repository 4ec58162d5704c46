package bundle

import "errors"

var (
	// ErrNoResult is returned by Result while the allocation has not ended.
	ErrNoResult = errors.New("the allocation has not ended")
	// ErrAlive is returned for a request that must wait until the
	// supervisor has ended.
	ErrAlive = errors.New("the allocation's supervisor still runs")
	// ErrBadAlloc is returned, wrapped, for an order that no allocation can be made of.
	ErrBadAlloc = errors.New("not an allocation of a job")
	// ErrDamaged is returned, wrapped, for an allocation's file that is not what was
	// written.
	ErrDamaged = errors.New("is damaged")
	// ErrForeign is returned, wrapped, for something in the place of an allocation's
	// directory that Launch did not make.
	ErrForeign = errors.New("is no allocation's directory of this node's")
)
