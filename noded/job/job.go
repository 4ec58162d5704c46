// Package job is the life of one job's allocation on one node, as a table of legal
// transitions.
//
//	            ┌───────────┐ container up  ┌───────┐ script released ┌─────────┐
//	StartAlloc ─►│ Preparing ├──────────────►│ Ready ├────────────────►│ Running │
//	            └──┬─────┬──┘               └─┬───┬─┘                 └──┬───┬──┘
//	               │     │  EndAlloc           │   │  EndAlloc             │   │
//	               │     └──────────────┬─────│───┴──────────────────────┘   │
//	               │                    ▼     │                              │
//	               │               ┌────────┐ │                              │
//	               │               │ Ending │ │ nothing of it is left        │
//	               │               └────┬───┘ │                              │
//	               └─────────┬──────────┴─────┴──────────────────────────────┘
//	                         ▼
//	                     ┌───────┐ EndedAcknowledged ┌──────────────┐
//	                     │ Ended ├──────────────────►│ Acknowledged │ its directory is deleted
//	                     └───────┘                   └──────────────┘
//
// What it promises: nothing but the table moves an allocation; going where it is
// already is legal and changes nothing, because every order and every report
// may arrive twice; every other move is an error that names both states. The
// package is pure: no clock, no I/O.
package job

import (
	"errors"
	"fmt"
	"slices"
)

// ErrIllegal is returned, wrapped, for a transition that the table does not
// have. The allocation has not moved.
var ErrIllegal = errors.New("illegal transition")

// State is where an allocation of a job is in its life on this node.
type State int

// The states, in the order in which an allocation passes them.
const (
	Preparing    State = iota // its supervisor and container are being made
	Ready                     // its container is up; the script waits to be released
	Running                   // the script, or this node's share of the steps, may run
	Ending                    // it was told to end
	Ended                     // nothing of it is left but its result
	Acknowledged              // a controller has the result; its directory may go
)

var names = [...]string{"Preparing", "Ready", "Running", "Ending", "Ended", "Acknowledged"}

// String answers the state's name.
func (s State) String() string {
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return names[s]
}

// table says where an allocation may go from each state.
var table = [...][]State{
	Preparing:    {Ready, Ending, Ended},
	Ready:        {Running, Ending, Ended},
	Running:      {Ending, Ended},
	Ending:       {Ended},
	Ended:        {Acknowledged},
	Acknowledged: {},
}

// Legal says whether the table lets an allocation go from one state to another.
// Staying is legal.
func Legal(from, to State) bool {
	if from < 0 || int(from) >= len(table) {
		return false
	}
	return from == to || slices.Contains(table[from], to)
}

// Life is one allocation's place in the table. The zero value is Preparing. It is
// not safe for use by several goroutines at once.
type Life struct {
	state State
}

// State answers where the allocation is.
func (l *Life) State() State { return l.state }

// Over says whether nothing of the allocation is left but its result.
func (l *Life) Over() bool { return l.state >= Ended }

// Move takes the allocation to a state and says whether that changed anything. It
// fails with ErrIllegal for a transition that the table does not have.
func (l *Life) Move(to State) (changed bool, err error) {
	if !Legal(l.state, to) {
		return false, fmt.Errorf("%w: an allocation cannot go from %v to %v", ErrIllegal, l.state, to)
	}
	changed = l.state != to
	l.state = to
	return changed, nil
}
