package state

// TrimHistory removes from the outbox of history what enough databases have. It may be
// applied twice without harm.
type TrimHistory struct {
	Through Position `cbor:"1,keyasint"`
}

func (TrimHistory) kind() Kind { return KindTrimHistory }

func (c TrimHistory) apply(s *State, _ *Result) {
	s.outbox.drop(s.outbox.firstAfter(c.Through))
}
