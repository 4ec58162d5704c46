package state

// NodesBack records that nodes whose lease had run out have renewed it without
// registering again: their connection had stalled, not ended.
type NodesBack struct {
	Names []string `cbor:"1,keyasint"`
}

func (NodesBack) kind() Kind { return KindNodesBack }

func (c NodesBack) apply(s *State, result *Result) {
	result.Refused = s.setResponding(c.Names, true)
}
