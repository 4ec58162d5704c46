package state

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// LentOnTerms are the nodes whose owners have set terms, ascending by name.
func (v *View) LentOnTerms() []*Node {
	nodes := make([]*Node, 0, v.lending.Len())
	v.lending.Scan(func(name string, _ struct{}) bool {
		node, _ := v.nodes.Get(name)
		nodes = append(nodes, node)
		return true
	})
	return nodes
}

// HeldWithoutTerms are the nodes that are reclaimed by a calendar that is gone, ascending
// by name.
func (v *View) HeldWithoutTerms() []string {
	var names []string
	v.reclaimed.Scan(func(name string, _ struct{}) bool {
		if node, _ := v.nodes.Get(name); node.Lending == nil && node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS) != nil {
			names = append(names, name)
		}
		return true
	})
	return names
}
