package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

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
	if len(p.Owners) > MaxOwners {
		return fmt.Errorf("%d owners are too many: at most %d", len(p.Owners), MaxOwners)
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
		case !validName(owner.Account):
			return fmt.Errorf("owner: account name %s: use letters, digits and -_. only", quoted(owner.Account))
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
	case len(p.owners)+len(names) > MaxNodesPerCommand:
		return fmt.Errorf("the owners have more than %d nodes: name fewer", MaxNodesPerCommand)
	}
	if p.owners == nil {
		p.owners = make(map[string]string, len(names))
	}
	for _, name := range names {
		if !spec.ValidHostName(name) {
			return fmt.Errorf("owner %s: node name %q is not a host name", owner.Account, clip(name, MaxNameBytes))
		}
		if other := p.owners[name]; other != "" && other != owner.Account {
			return fmt.Errorf("node %s has two owners, %s and %s: leave it with one of them", name, other, owner.Account)
		}
		p.owners[name] = owner.Account
	}
	owner.Nodes = spec.FormatHostList(names)
	return nil
}

// unknownOwner refuses a policy that gives nodes to an account that does not exist, or
// bounds one.
func (a *accounting) unknownOwner(policy *Policy) *Refusal {
	for i := range policy.Owners {
		if name := policy.Owners[i].Account; !a.hasAccount(name) {
			return refuse(Invalid, "owner %s: the account does not exist: add it first with gacctmgr add account %s", name, name)
		}
	}
	for i := range policy.Borrowers {
		if name := policy.Borrowers[i].Account; !a.hasAccount(name) {
			return refuse(Invalid, "borrower %s: the account does not exist: add it first with gacctmgr add account %s", name, name)
		}
	}
	return nil
}

func (a *accounting) hasAccount(name string) bool {
	_, known := a.Account(name)
	return known
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
