// Package lease decides when one allocation of a job may run on a node that has lost
// sight of the controllers.
//
// Contract: pure. There is no clock and no I/O in here. The caller says what
// time it is (CLOCK_BOOTTIME, which continues while the machine sleeps), tells
// of grants, carries out what At answers and tells when that is done. What the package
// promises then: an allocation under Fence runs only before the end of a lease that
// named it; once a grant has left it out, it never runs again, whatever comes
// later; the lease never touches an allocation under run-on. A suspended allocation
// does not run, whatever its lease: it runs only if both allow it.
// A caller that carries out At late is late by as much, and the margin covers that.
package lease

import "time"

// Fence is the lease action of a partition whose jobs must not run past the end of
// their node's lease. Under any other, which is "run-on", the lease changes nothing on
// the node.
const Fence = "fence"

// Action is what is to be done with an allocation now.
type Action int

// Actions.
const (
	Run     Action = iota // it runs and may: nothing is to be done
	Nothing               // it does not run and may not
	Freeze                // it runs and may not: set Runs to false once the kernel says that it is frozen
	Thaw                  // it may start, or resume: set Runs before that is tried
	Remove                // end it without letting it run again
)

var actionNames = [...]string{"run", "nothing", "freeze", "thaw", "remove"}

// String names an action.
func (a Action) String() string { return actionNames[a] }

// Lease is the lease of one allocation. The zero value, with Begun and Fence set, is
// that of an allocation just ordered. All times are CLOCK_BOOTTIME.
type Lease struct {
	Fence  bool
	Begun  time.Duration // when the node took the order to start it
	End    time.Duration // 0 = none was granted yet
	Margin time.Duration // how long after End the controllers still wait
	Runs   bool          // false before it was started, and while it is frozen
	Gone   bool          // it is no longer the node's
	// Suspended: it must be frozen until further orders.
	Suspended bool
}

// Grant is a controller's answer to a request for a lease.
type Grant struct {
	Sent   time.Duration // when the node sent the request
	Length time.Duration
	Margin time.Duration
	Named  bool // the allocation is the node's, by the word of a majority
}

// Granted takes an answer in. Answers may come late, twice and out of order.
// One that leaves the allocation out counts only if it was asked for after the allocation
// had come here: an earlier one could not know of it.
func (l Lease) Granted(g Grant) Lease {
	switch {
	case g.Named:
		if end := g.Sent + g.Length; end > l.End {
			l.End, l.Margin = end, g.Margin
		}
	case l.Fence && g.Sent > l.Begun:
		l.Gone = true
	}
	return l
}

// MayRun says whether the lease lets the allocation run at this moment, if only to
// end: one that is suspended has its time for that.
func (l Lease) MayRun(now time.Duration) bool {
	return !l.Gone && (!l.Fence || now < l.End)
}

// At answers what is to be done now. An allocation that could not be frozen is
// removed when half of the margin is left, so that killing it has the rest; one
// that is suspended, only when its lease has ended.
func (l Lease) At(now time.Duration) Action {
	may := l.MayRun(now)
	switch {
	case l.Gone:
		return Remove
	case may && !l.Suspended && l.Runs:
		return Run
	case may && !l.Suspended:
		return Thaw
	case !l.Runs:
		return Nothing
	case may || now < l.Limit():
		return Freeze
	default:
		return Remove
	}
}

// Limit is when an allocation that still is not frozen must be killed.
func (l Lease) Limit() time.Duration { return l.End + l.Margin/2 }

// Next answers how long the answer of At is valid if nothing else happens; false
// = without end. While it is Freeze, that is to be tried until then.
func (l Lease) Next(now time.Duration) (time.Duration, bool) {
	switch l.At(now) {
	case Run:
		return l.End - now, l.Fence
	case Freeze:
		return l.Limit() - now, l.Fence
	default:
		return 0, false
	}
}
