package state

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// ownerIndex finds the nodes that accounts own in a snapshot. It is empty where no node
// has an owner.
type ownerIndex struct {
	nodes     map[string][]place.NodeIndex // by owner, ascending
	byAccount map[string]int32             // as sched.Job has it, of those asked for so far
	sets      map[string]int32             // by the owners whose nodes they are
}

func (v *View) schedOwners(snapshot *sched.Snapshot) ownerIndex {
	if len(v.policy.Owners) == 0 {
		return ownerIndex{}
	}
	index := ownerIndex{nodes: map[string][]place.NodeIndex{}, byAccount: map[string]int32{}, sets: map[string]int32{"": 0}}
	for i := range snapshot.Nodes {
		if owner := v.policy.OwnerOf(snapshot.Nodes[i].Name); owner != "" {
			index.nodes[owner] = append(index.nodes[owner], place.NodeIndex(i))
		}
	}
	return index
}

// ownerOf is which nodes the account of an association owns, as sched.Job has it: its own
// and those of the accounts above it.
func (v *View) ownerOf(association int32, snapshot *sched.Snapshot, index *schedIndex) int32 {
	owners := &index.owners
	if len(owners.nodes) == 0 || association < 0 {
		return 0
	}
	account := snapshot.Associations[association].Account
	set, known := owners.byAccount[account]
	if !known {
		set = owners.add(v.ownersAbove(account, owners), snapshot)
		owners.byAccount[account] = set
	}
	return set
}

// ownersAbove are those of an account and the accounts above it that own nodes.
func (v *View) ownersAbove(account string, owners *ownerIndex) []string {
	var above []string
	for range bounds.MaxAccountDepth + 1 {
		if len(owners.nodes[account]) > 0 {
			above = append(above, account)
		}
		record, known := v.Account(account)
		if !known || account == policy.RootAccount {
			break
		}
		account = record.Parent
	}
	return above
}

// add is the number of the set of the nodes of some owners.
func (x *ownerIndex) add(owners []string, snapshot *sched.Snapshot) int32 {
	key := strings.Join(owners, " ")
	set, known := x.sets[key]
	if known {
		return set
	}
	var nodes []place.NodeIndex
	for _, owner := range owners {
		nodes = append(nodes, x.nodes[owner]...)
	}
	slices.Sort(nodes)
	snapshot.Owners = append(snapshot.Owners, nodes)
	x.sets[key] = int32(len(snapshot.Owners))
	return x.sets[key]
}
