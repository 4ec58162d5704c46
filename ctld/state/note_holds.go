package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NoteHolds takes over what the owner of a node says on the node itself, which its
// supervisors obey already. The node tells all of it, under a number that rises with each
// change; what it told before changes nothing. An unknown node is ignored. Make one with
// HoldsFromMessage.
type NoteHolds struct {
	Name   string     `cbor:"1,keyasint"`
	Number uint64     `cbor:"2,keyasint"`
	Holds  []ToldHold `cbor:"3,keyasint,omitempty"` // ascending by trigger, each once
	// Released is the number under which somebody ended all holds on the node, and
	// ReleasedAgoMS how long ago that was; 0 = nobody did.
	Released      uint64 `cbor:"4,keyasint,omitempty"`
	ReleasedAgoMS int64  `cbor:"5,keyasint,omitempty"`
}

// ToldHold is a hold that was placed on the node: see NodeHold in owner.proto.
type ToldHold struct {
	Trigger  pb.ReclaimTrigger `cbor:"1,keyasint"`
	Number   uint64            `cbor:"2,keyasint"`
	By       string            `cbor:"3,keyasint,omitempty"`
	Detail   string            `cbor:"4,keyasint,omitempty"`
	Kill     bool              `cbor:"5,keyasint,omitempty"`
	WithinMS int64             `cbor:"6,keyasint,omitempty"`
	LeftMS   int64             `cbor:"7,keyasint,omitempty"`
}

// nodesTriggers are those whose holds are placed on the node, ascending.
var nodesTriggers = []pb.ReclaimTrigger{
	pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL, pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN,
}

// maxToldUntilMS bounds how long a hold of a node may last, like one of a command.
const maxToldUntilMS = 366 * 24 * 3600 * 1000

// HoldsFromMessage makes the command of what a node tells. What makes no sense is left
// out.
func HoldsFromMessage(node string, message *pb.NodeHolds) NoteHolds {
	c := NoteHolds{Name: node, Number: message.GetNumber(), Released: message.GetReleased(), ReleasedAgoMS: max(message.GetReleasedAgoMs(), 0)}
	for _, trigger := range nodesTriggers {
		at := slices.IndexFunc(message.GetHolds(), func(h *pb.NodeHold) bool { return h.GetTrigger() == trigger })
		if at < 0 {
			continue
		}
		h := message.GetHolds()[at]
		c.Holds = append(c.Holds, ToldHold{
			Trigger: trigger, Number: h.GetNumber(), By: bounds.Clip(h.GetBy(), bounds.MaxNameBytes), Detail: bounds.Clip(h.GetDetail(), maxHoldDetailBytes), Kill: h.GetKill(),
			WithinMS: min(max(h.GetWithinMs(), MinReclaimMS), MaxReclaimMS), LeftMS: min(max(h.GetLeftMs(), 0), maxToldUntilMS),
		})
	}
	return c
}

// TellsHolds reports whether a command changes anything.
func (t *tables) TellsHolds(c *NoteHolds) bool {
	node, known := t.nodes.Get(c.Name)
	return known && c.Number > node.HoldsNumber
}

func (NoteHolds) kind() Kind { return KindNoteHolds }
func (c NoteHolds) apply(s *State, result *Result) {
	if !s.TellsHolds(&c) {
		return
	}
	old, _ := s.nodes.Get(c.Name)
	released := c.Released > old.HoldsNumber
	if len(c.Holds) > len(nodesTriggers) || slices.ContainsFunc(c.Holds, func(h ToldHold) bool { return !slices.Contains(nodesTriggers, h.Trigger) }) {
		result.Refused = refuse(Invalid, "a node has holds by %d triggers at most, each of its own", len(nodesTriggers))
		return
	}
	node := *old
	node.HoldsNumber = c.Number
	s.putNode(&node)
	if released {
		// The owner's newest word counts: what was asked for later than that stays.
		s.noteHoursOff(c.Name, 0)
		s.dropHolds(c.Name, func(h *Hold) bool { return h.SinceMS <= s.timeMS-c.ReleasedAgoMS })
	}
	var told []pb.ReclaimTrigger
	for i := range c.Holds {
		h := &c.Holds[i]
		if h.Number <= node.HoldsOff {
			continue // somebody has ended it here, and the node has not heard of that yet
		}
		told = append(told, h.Trigger)
		s.reclaim(h.command(c.Name, s.timeMS), []string{c.Name}, nil)
	}
	s.dropHolds(c.Name, func(h *Hold) bool {
		return slices.Contains(nodesTriggers, h.Trigger) && !slices.Contains(told, h.Trigger)
	})
	result.Nodes = []string{c.Name}
}

// command is the hold as a reclaim.
func (h *ToldHold) command(node string, nowMS int64) *ReclaimNodes {
	c := &ReclaimNodes{Names: []string{node}, WithinMS: max(h.WithinMS, MinReclaimMS), Kill: h.Kill, User: h.By, Trigger: h.Trigger, Detail: h.Detail}
	if h.LeftMS != 0 {
		c.UntilMS = nowMS + h.LeftMS
	}
	return c
}

// noteHoldsOff notes that somebody ends the holds that a node has told: what it tells of
// them from now on is old, and it has to drop them.
func (s *State) noteHoldsOff(name string) {
	old, _ := s.nodes.Get(name)
	if !slices.ContainsFunc(nodesTriggers, func(t pb.ReclaimTrigger) bool { return old.Reclaim.Held(t) != nil }) {
		return
	}
	node := *old
	node.HoldsOff = node.HoldsNumber
	s.putNode(&node)
}

// OwnerRules is what a node has to know of its owner: who that is, whose jobs are no
// guests, and who may reclaim the node on the node itself.
func (t *tables) OwnerRules(node *Node) *pb.OwnerRules {
	owner := t.policy.OwnerOf(node.Name)
	rules := OnTermsOf(&pb.OwnerRules{Owner: owner}, node)
	if owner == "" {
		return rules
	}
	for account := range t.Accounts() {
		if t.IsBelow(account.Name, owner) {
			rules.Accounts = append(rules.Accounts, account.Name)
		}
	}
	slices.Sort(rules.Accounts)
	for name := owner; ; {
		account, known := t.Account(name)
		if !known {
			break
		}
		rules.People = append(rules.People, account.Coordinators...)
		if name == policy.RootAccount || len(rules.People) > maxOwnersPeople {
			break
		}
		name = cmp.Or(account.Parent, policy.RootAccount)
	}
	slices.Sort(rules.People)
	rules.People = slices.Compact(rules.People)
	return rules
}

// OnTermsOf are the rules of an owner for one of its nodes, which has terms of its own.
func OnTermsOf(rules *pb.OwnerRules, node *Node) *pb.OwnerRules {
	own := &pb.OwnerRules{Owner: rules.GetOwner(), Accounts: rules.GetAccounts(), People: rules.GetPeople()}
	if lending := node.Lending; lending != nil {
		own.NoticeMs, own.Triggers, own.QuietS = lending.NoticeMS, lending.Triggers, lending.QuietS
		own.GuestNetworkBytes, own.GuestPowerWatts, own.GuestIoBytes = lending.GuestNetwork, lending.GuestPower, lending.GuestIO
	}
	return own
}

// maxOwnersPeople bounds the people of one owner that a node is told.
const maxOwnersPeople = 10_000
