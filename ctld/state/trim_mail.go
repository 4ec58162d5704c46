package state

// TrimMail removes from the outbox of mail what was handed over. It may be applied twice
// without harm.
type TrimMail struct {
	Through Position `cbor:"1,keyasint"`
}

func (TrimMail) kind() Kind { return KindTrimMail }

func (c TrimMail) apply(s *State, _ *Result) {
	s.unboxMail(s.mails.drop(s.mails.firstAfter(c.Through)))
	s.dropOldMail()
}
