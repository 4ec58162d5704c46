package state

import (
	"reflect"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// SetLending sets on what terms nodes are lent: what is named in Settings, and nothing
// else. All nodes are changed, or none. It says nothing about guests that run already.
type SetLending struct {
	Names []string `cbor:"1,keyasint"`
	// Lending has the values, see LendingFromMessage, and Settings names the fields of the
	// Message that count.
	Lending  Lending  `cbor:"2,keyasint"`
	Settings []string `cbor:"3,keyasint,omitempty"`
	Reset    bool     `cbor:"4,keyasint,omitempty"` // first all terms are the default ones
	User     string   `cbor:"5,keyasint,omitempty"` // as in ReclaimNodes, and so the rest
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"6,keyasint,omitempty"`
	Privileged  bool   `cbor:"7,keyasint,omitempty"`
}

func (SetLending) kind() Kind { return KindSetLending }
func (c SetLending) apply(s *State, result *Result) {
	names := nodesNamed(c.Names)
	terms, refused := s.lendingAfter(&c, names, s.timeMS)
	if result.Refused = refused; refused != nil {
		return
	}
	for i, name := range names {
		old, _ := s.nodes.Get(name)
		node := *old
		node.Lending = terms[i]
		s.putNode(&node)
	}
	result.Nodes = names
}

// TryLending says what applying a command at a time would refuse, and how the nodes would
// be after it.
func (v *View) TryLending(c SetLending, nowMS int64) ([]*pb.Node, *Refusal) {
	names := nodesNamed(c.Names)
	terms, refused := v.lendingAfter(&c, names, max(nowMS, v.timeMS))
	if refused != nil {
		return nil, refused
	}
	var messages []*pb.Node
	for i, name := range names {
		old, _ := v.nodes.Get(name)
		node := *old
		node.Lending = terms[i]
		messages = append(messages, v.NodeMessage(&node))
	}
	return messages, nil
}

// lendingAfter are the terms of some nodes after a command, in their order.
func (t *tables) lendingAfter(c *SetLending, names []string, nowMS int64) ([]*Lending, *Refusal) {
	switch {
	case len(c.Settings) == 0 && !c.Reset:
		return nil, refuse(Invalid, "nothing is to be set: name a setting, as in --notice=2m, or use --reset")
	case len(c.Settings) > len(lendingSettings):
		return nil, refuse(Invalid, "a setting is named twice")
	}
	if refused := t.checkOwned(names, c.Coordinator, c.Privileged, "lend"); refused != nil {
		return nil, refused
	}
	var all []*Lending
	for _, name := range names {
		node, _ := t.nodes.Get(name)
		terms := node.Lending.Terms()
		if c.Reset {
			terms = defaultLending()
		}
		for _, setting := range c.Settings {
			set, known := lendingSettings[setting]
			if !known {
				return nil, refuse(Invalid, "there is no setting %s: use a glend of the controllers' version", bounds.Quoted(setting))
			}
			set(&terms, &c.Lending)
		}
		if refused := terms.check(&t.accounting); refused != nil {
			return nil, refused
		}
		if no := node.cannotBound(&terms); no != nil && slices.Contains(c.Settings, no.setting) {
			return nil, refuse(WrongState, "%s on node %s: %s", no.option, name, no.why)
		}
		all = append(all, terms.stored(t.policy.OwnerOf(name), c.User, nowMS))
	}
	return all, nil
}

// stored is what a node keeps of terms; nil if they are the default ones.
func (l Lending) stored(owner, user string, nowMS int64) *Lending {
	l.Owner, l.By, l.AtMS = "", "", 0
	if reflect.DeepEqual(l, defaultLending()) {
		return nil
	}
	l.Owner, l.By, l.AtMS = owner, bounds.Clip(user, bounds.MaxNameBytes), nowMS
	return &l
}

// forgetLending forgets the terms of nodes that have another owner now: they are lent as
// if their owner had said nothing.
func (s *State) forgetLending() {
	for _, name := range s.lending.Keys() {
		if old, _ := s.nodes.Get(name); old.Lending.Owner != s.policy.OwnerOf(name) {
			node := *old
			node.Lending = nil
			s.putNode(&node)
		}
	}
}

// lentTo is a node to whose guests an account is admitted by name; "" = there is none.
func (t *tables) lentTo(account string) string {
	found := ""
	t.lending.Scan(func(name string, _ struct{}) bool {
		if node, _ := t.nodes.Get(name); slices.Contains(node.Lending.Accounts, account) {
			found = name
		}
		return found == ""
	})
	return found
}
