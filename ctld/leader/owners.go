package leader

import (
	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// tellOwners tells nodes what they have to know of their owners, so that they obey these
// with every controller away, and which holds that were placed there are over. It is
// looked at with every change of a node and in each sweep; a session hears only what it
// has not heard.
func (l *Leader) tellOwners(view *state.View, sessions []*session.Session) {
	rules := map[string]*pb.OwnerRules{} // by owner
	for _, s := range sessions {
		node, known := view.Node(s.Node())
		if !known || node.Awaited {
			continue
		}
		s.TellOwner(ownersRules(view, node, rules), node.HoldsOff)
	}
}

// ownersRules are the rules of a node. Who an owner's people are is looked up once for all
// its nodes; each node has terms of its own.
func ownersRules(view *state.View, node *state.Node, known map[string]*pb.OwnerRules) *pb.OwnerRules {
	owner := view.Policy().OwnerOf(node.Name)
	rules, there := known[owner]
	if !there {
		rules = view.OwnerRules(node)
		known[owner] = rules
		return rules
	}
	return state.OnTermsOf(rules, node)
}
