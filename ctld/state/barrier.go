package state

import "slices"

// Barrier changes no job and no node: it carries log time. With a term it opens
// the term of a new leader: the leader grants no lease before, so that a leader
// of an earlier term cannot end one that it granted (LeasesEnded).
type Barrier struct {
	Term uint64 `cbor:"1,keyasint,omitempty"` // of the leader that proposes it; 0 = none
	// LeaseS, with Term: no lease longer than this, or than the policy's, can
	// still be in force.
	LeaseS uint32 `cbor:"2,keyasint,omitempty"`
}

func (Barrier) kind() Kind { return KindBarrier }

func (c Barrier) apply(s *State, _ *Result) {
	if c.Term == 0 {
		return
	}
	if c.LeaseS != 0 && c.Term == s.term {
		s.longestLeaseS = max(c.LeaseS, s.policy.LeaseS)
	}
	if c.Term != s.term {
		s.awaitSilent()
	}
	s.term = c.Term
}

// awaitSilent gives the silent nodes whose images are waited for the time of a
// lease to find the new leader: while there was none, they could not.
func (s *State) awaitSilent() {
	latest := s.timeMS - s.imageWaitMS() + int64(s.LongestLeaseS())*1000
	for _, old := range slices.Collect(s.Nodes()) {
		if old.NotResponding && old.SilentMS < latest {
			node := *old
			node.SilentMS = latest
			s.putNode(&node)
		}
	}
}

// Term is that of the last leader that opened one.
func (t *tables) Term() uint64 { return t.term }

// LongestLeaseS is the length of the longest lease that may be in force, in
// seconds: the policy's, or a former policy's if it was longer.
func (t *tables) LongestLeaseS() uint32 { return max(t.longestLeaseS, t.policy.LeaseS) }
