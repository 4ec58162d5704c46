package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// leadership is how a leader counts time. A Barrier opens a term before its
// leader grants a lease or ends one.
type leadership struct {
	term   uint64    // raft's; 0 = it counts no time
	opened time.Time // when the Barrier of the term was applied here; zero = not yet
}

// errNotOpen is returned when the log could not be told that the term began.
var errNotOpen = errors.New("the log could not be told that a new leader has begun")

// SetTerm sets the term in which this controller is to lead, before Begin.
func (l *Leader) SetTerm(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leadership = leadership{term: term}
}

func (l *Leader) currentLeadership() leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leadership
}

// OpenTerm proposes the Barrier of the term unless it was applied.
func (l *Leader) OpenTerm(ctx context.Context) error {
	l.opening.Lock()
	defer l.opening.Unlock()
	now := l.currentLeadership()
	barrier := state.Barrier{Term: now.term}
	if now.term == 0 {
		return errNotOpen
	}
	if !now.opened.IsZero() {
		return nil
	}
	if _, err := l.cluster.Propose(ctx, barrier, state.RequestID{}); err != nil {
		return fmt.Errorf("%w: %w", errNotOpen, err)
	}
	if l.cluster.View().Term() != now.term {
		return errNotOpen
	}
	now.opened = l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leadership.term != now.term {
		return errNotOpen
	}
	l.leadership = now
	return nil
}

// endLeases ends the leases of silent nodes that have run out.
func (l *Leader) endLeases(ctx context.Context, now, since time.Time) {
	view := l.cluster.View()
	fencing := make(map[string]string)
	for _, node := range l.sessions.Ending() {
		l.endLeasesOf(ctx, node) // its outcome is not known yet
	}
	for node := range view.Nodes() {
		if !node.NotResponding || node.Awaited {
			continue
		}
		allocs := view.FencedAllocs(node.Name)
		if allocs == 0 {
			continue
		}
		left := l.leasesLeft(view, node.Name, now, since)
		if left <= 0 && l.sessions.EndLeases(node.Name, l.margin(view, now)) && l.endLeasesOf(ctx, node.Name) {
			l.log.Warn("a node was silent for longer than its lease: its jobs that are frozen without one are started elsewhere; run-on jobs wait until it is back or gcontrol fence says that it is off",
				"node", node.Name, "allocs", allocs)
			l.power.wanted(node.Name)
			continue
		}
		fencing[node.Name] = fmt.Sprintf("it does not respond: what it holds of jobs under lease_action fence is over in %v", max(left, 0).Round(time.Second))
	}
	l.mu.Lock()
	l.fencing = fencing
	l.mu.Unlock()
	l.switchOff(ctx, l.cluster.View(), now)
	l.settleLeases(ctx, view, now, since)
}

// margin is how long after its end a lease is surely over.
func (l *Leader) margin(view *state.View, now time.Time) time.Time {
	return now.Add(-time.Duration(view.Policy().MarginS()) * time.Second)
}

// leasesLeft is how long some lease of a node may still be in force, plus a
// margin. What former leaders granted may last as long as the longest lease,
// counted from when this leader's term was opened.
func (l *Leader) leasesLeft(view *state.View, node string, now, since time.Time) time.Duration {
	longest := time.Duration(view.LongestLeaseS()) * time.Second
	leadership := l.currentLeadership()
	if leadership.opened.IsZero() {
		since = now // it counts no time yet
	} else if leadership.opened.After(since) {
		since = leadership.opened
	}
	until := since.Add(longest)
	if granted := l.sessions.LeaseUntil(node); granted.After(until) {
		until = granted
	}
	left := until.Sub(l.margin(view, now))
	if leadership.opened.IsZero() {
		return max(left, 1)
	}
	return left
}

// endLeasesOf commits the end of a node's leases, and reports whether it did.
// The caller holds the right to do so.
func (l *Leader) endLeasesOf(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	result, err := l.cluster.Propose(ctx, state.LeasesEnded{Term: l.currentLeadership().term, Node: node}, state.RequestID{})
	if err != nil {
		// It may still be committed: nothing is granted until that is known.
		l.log.Warn("the leases of a silent node could not be ended; it is tried again", "node", node, "error", err)
		return false
	}
	l.sessions.LeasesEnded(node)
	if s := l.sessions.Get(node); s != nil && result.Refused == nil {
		// It still has what it has just lost. Until it has registered, and
		// reported that, nothing else may be started there.
		s.CutFor(session.ErrEnding)
	}
	if result.Refused != nil {
		l.log.Info("the leases of a node were not ended", "node", node, "reason", result.Refused)
	}
	return result.Refused == nil
}

// Fencing says what a silent node waits for that holds jobs which must not run
// without a lease; "" when there is nothing to say.
func (l *Leader) Fencing(node string) string {
	said := l.power.said(node)
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(said, l.fencing[node])
}

// settleLeases records in the log that leases longer than the policy's are
// over, so that the next leader need not wait for them.
func (l *Leader) settleLeases(ctx context.Context, view *state.View, now, since time.Time) {
	leadership := l.currentLeadership()
	longest, policy := view.LongestLeaseS(), view.Policy()
	if leadership.opened.IsZero() || longest == policy.LeaseS {
		l.shortened = time.Time{}
		return
	}
	if l.shortened.IsZero() || l.shortened.Before(since) {
		l.shortened = now
	}
	if now.Sub(l.shortened) > time.Duration(longest+policy.MarginS())*time.Second {
		l.propose(ctx, state.Barrier{Term: leadership.term, LeaseS: policy.LeaseS})
	}
}
