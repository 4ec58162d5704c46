package state

// NoteLeftOvers records all that a node could not clean up. It says nothing of
// the jobs there, so that it may come late without harm. An unknown node is
// ignored. Make one with LeftOversFromMessage.
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
