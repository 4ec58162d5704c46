package state

// NoteLeftOvers records what a node could not clean up: all there is now. It
// says nothing of what runs there, so that it may come late without harm. A
// node that is not known is ignored. Make one with LeftOversFromMessage.
type NoteLeftOvers struct {
	Name      string     `cbor:"1,keyasint"`
	LeftOvers []LeftOver `cbor:"2,keyasint,omitempty"`
}

func (NoteLeftOvers) kind() Kind { return KindNoteLeftOvers }

func (c NoteLeftOvers) apply(s *State, _ *Result) {
	old, known := s.nodes.Get(c.Name)
	if !known {
		return
	}
	node := *old
	node.LeftOvers = clipLeftOvers(c.LeftOvers)
	s.putNode(&node)
}
