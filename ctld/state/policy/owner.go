package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// RootAccount is the name of the account above all others.
const RootAccount = "root"

// IsOwner reports whether nodes belong to an account.
func (p *Policy) IsOwner(account string) bool {
	_, found := slices.BinarySearchFunc(p.Owners, account, func(o NodeOwner, account string) int { return cmp.Compare(o.Account, account) })
	return found
}

// NodeOwner is an account with the nodes that belong to it. Jobs of that account and of
// those below it are the owner's jobs; all other jobs on these nodes are guests.
type NodeOwner struct {
	Account string `cbor:"1,keyasint"`
	Nodes   string `cbor:"2,keyasint"` // host list
}

// OwnerOf is the account that a node belongs to; "" = it is the site's.
func (p *Policy) OwnerOf(node string) string { return p.owners[node] }

// OwnedNodes are the nodes of an account, ascending; those of "" are unknown here.
func (p *Policy) OwnedNodes(account string) []string {
	var names []string
	for name, owner := range p.owners {
		if owner == account {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// normalizeOwners checks that a node has one owner at most.
func (p *Policy) normalizeOwners() error {
	if len(p.Owners) > bounds.MaxOwners {
		return fmt.Errorf("%d owners are too many: at most %d", len(p.Owners), bounds.MaxOwners)
	}
	p.Owners = slices.Clone(p.Owners)
	for i := range p.Owners {
		p.Owners[i].Account = strings.ToLower(p.Owners[i].Account)
	}
	slices.SortFunc(p.Owners, func(a, b NodeOwner) int { return cmp.Compare(a.Account, b.Account) })
	p.owners = nil
	for i := range p.Owners {
		owner := &p.Owners[i]
		switch {
		case !bounds.ValidName(owner.Account):
			return fmt.Errorf("owner: account name %s: use letters, digits and -_. only", bounds.Quoted(owner.Account))
		case owner.Account == RootAccount:
			return fmt.Errorf("owner root: all accounts are below it, so nobody would be a guest: name another account, or leave the nodes to the site")
		case i > 0 && p.Owners[i-1].Account == owner.Account:
			return fmt.Errorf("account %s is an owner twice: write one [[owner]] with the nodes of both", owner.Account)
		}
		if err := p.takeOwner(owner); err != nil {
			return err
		}
	}
	return nil
}

// takeOwner notes the nodes of one owner.
func (p *Policy) takeOwner(owner *NodeOwner) error {
	names, err := spec.ParseHostList(owner.Nodes)
	switch {
	case err != nil:
		return fmt.Errorf("owner %s: nodes: %w", owner.Account, err)
	case len(names) == 0 || strings.EqualFold(owner.Nodes, allNodes):
		return fmt.Errorf("owner %s: name the nodes in a host list such as n[1-4]", owner.Account)
	case len(p.owners)+len(names) > bounds.MaxNodesPerCommand:
		return fmt.Errorf("the owners have more than %d nodes: name fewer", bounds.MaxNodesPerCommand)
	}
	if p.owners == nil {
		p.owners = make(map[string]string, len(names))
	}
	for _, name := range names {
		if !spec.ValidHostName(name) {
			return fmt.Errorf("owner %s: node name %q is not a host name", owner.Account, bounds.Clip(name, bounds.MaxNameBytes))
		}
		if other := p.owners[name]; other != "" && other != owner.Account {
			return fmt.Errorf("node %s has two owners, %s and %s: leave it with one of them", name, other, owner.Account)
		}
		p.owners[name] = owner.Account
	}
	owner.Nodes = spec.FormatHostList(names)
	return nil
}

// OwnerEntries are the owners as "gcontrol show config" lists them.
func (p *Policy) OwnerEntries() []*pb.ConfigEntry {
	var entries []*pb.ConfigEntry
	for i := range p.Owners {
		entries = append(entries, &pb.ConfigEntry{Key: "Owner[" + p.Owners[i].Account + "]", Value: p.Owners[i].Nodes})
	}
	return entries
}

func (p *Policy) readOwners(message *pb.Policy) {
	for _, owner := range message.GetOwners() {
		p.Owners = append(p.Owners, NodeOwner{Account: owner.GetAccount(), Nodes: owner.GetNodes()})
	}
	for _, borrower := range message.GetBorrowers() {
		p.Borrowers = append(p.Borrowers, Borrower{Account: borrower.GetAccount(), GrpTRES: borrower.GetGrpTres()})
	}
}

func (p *Policy) writeOwners(message *pb.Policy) {
	for i := range p.Owners {
		message.Owners = append(message.Owners, &pb.Owner{Account: p.Owners[i].Account, Nodes: p.Owners[i].Nodes})
	}
	for i := range p.Borrowers {
		message.Borrowers = append(message.Borrowers, &pb.Borrower{Account: p.Borrowers[i].Account, GrpTres: p.Borrowers[i].GrpTRES})
	}
}

func diffOwners(changes []*pb.PolicyChange, before, after *Policy) []*pb.PolicyChange {
	return diffNamed(changes, "owners.", before.Owners, after.Owners,
		func(o *NodeOwner) string { return o.Account }, func(o *NodeOwner) []setting { return []setting{{".nodes", o.Nodes}} })
}
