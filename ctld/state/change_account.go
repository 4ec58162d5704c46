package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func (e *accountEditor) changeAccount(c *AccountChange) *Refusal {
	old, known := e.Account(c.Account)
	switch {
	case !known && c.Action != AddRecord:
		return refuse(NotFound, "account %s does not exist: gacctmgr show account tells which do", bounds.Quoted(c.Account))
	case known && c.Action == AddRecord:
		return refuse(WrongState, "account %s exists already: change it with gacctmgr modify account %s set …", c.Account, c.Account)
	case c.Action == DeleteRecord:
		return e.deleteAccount(old)
	case c.Action == AddRecord:
		return e.addAccount(c)
	}
	account := *old
	association, _ := e.AssociationOf(c.Account, "", "")
	return e.storeAccount(&account, association, c)
}

func (e *accountEditor) addAccount(c *AccountChange) *Refusal {
	if refused := checkRecordName("account", c.Account); refused != nil {
		return refused
	}
	if e.accounts.Len() >= bounds.MaxAccounts {
		return refuse(Exhausted, "there are %d accounts, and cannot be more: delete some first", e.accounts.Len())
	}
	account := &Account{Name: c.Account, Parent: policy.RootAccount, Description: c.Account, Organization: c.Account}
	if c.Parent != nil {
		account.Organization = cmp.Or(e.organizationOf(*c.Parent), c.Account)
	}
	association, refused := e.newAssociation(c.Account, "", "")
	if refused != nil {
		return refused
	}
	return e.storeAccount(account, association, c)
}

// organizationOf is the organization of an account; a new account has its
// parent's, as in Slurm.
func (e *accountEditor) organizationOf(name string) string {
	if account, known := e.Account(name); known && name != policy.RootAccount {
		return account.Organization
	}
	return ""
}

// storeAccount applies a change to a copy of an account, and to its
// association.
func (e *accountEditor) storeAccount(account *Account, association *Association, c *AccountChange) *Refusal {
	if c.Parent != nil && (c.Action == AddRecord || *c.Parent != account.Parent) {
		if refused := e.checkMove(account, *c.Parent); refused != nil {
			return refused
		}
		account.Parent = *c.Parent
		e.tree = true
	}
	if c.Description != nil {
		account.Description = *c.Description
	}
	if c.Organization != nil {
		account.Organization = *c.Organization
	}
	if c.Coordinators != nil {
		names, refused := c.Coordinators.edit(account.Coordinators, e.checkCoordinator)
		if refused != nil {
			return refused
		}
		if len(names) > bounds.MaxCoordinators {
			return refuse(Exhausted, "account %s would have %d coordinators: at most %d", account.Name, len(names), bounds.MaxCoordinators)
		}
		account.Coordinators = names
	}
	changed, refused := e.changedAssociation(association, c)
	if refused != nil {
		return refused
	}
	e.putAccount(account)
	e.putAssociation(changed)
	if c.ResetUsage {
		e.forgetUsage(account.Name)
	}
	return nil
}

func (e *accountEditor) checkCoordinator(name string) *Refusal {
	if _, known := e.User(name); !known {
		return refuse(NotFound, "user %s is not known: add them first with gacctmgr add user %s account=NAME", bounds.Quoted(name), bounds.Clip(name, 64))
	}
	return nil
}

// checkMove refuses a parent that does not exist, or that would make a loop or
// too deep a tree.
func (e *accountEditor) checkMove(account *Account, parent string) *Refusal {
	if account.Name == policy.RootAccount {
		return refuse(Invalid, "the root account has no parent: it is above all others")
	}
	if _, known := e.Account(parent); !known {
		return refuse(NotFound, "parent account %s does not exist: add it first with gacctmgr add account %s", bounds.Quoted(parent), bounds.Clip(parent, 64))
	}
	if e.IsBelow(parent, account.Name) {
		return refuse(Invalid, "account %s cannot be below %s, which is %s: choose a parent outside of it", account.Name, parent, map[bool]string{true: "itself", false: "below it"}[parent == account.Name])
	}
	depth := 1
	for at, _ := e.Account(parent); at.Name != policy.RootAccount; at, _ = e.Account(at.Parent) {
		depth++
	}
	if depth+e.height(account.Name) > bounds.MaxAccountDepth {
		return refuse(Exhausted, "account %s would lie more than %d accounts below the root: choose a parent higher up", account.Name, bounds.MaxAccountDepth)
	}
	return nil
}

// height is how many levels of accounts lie below one.
func (e *accountEditor) height(account string) int {
	height := 0
	for child := range e.AccountsBelow(account) {
		height = max(height, 1+e.height(child))
	}
	return height
}

func (e *accountEditor) deleteAccount(account *Account) *Refusal {
	if account.Name == policy.RootAccount {
		return refuse(Invalid, "the root account cannot be deleted")
	}
	if children := firstOf(e.AccountsBelow(account.Name)); len(children) > 0 {
		return refuse(WrongState, "account %s has accounts below it (%s): delete or move them first, with gacctmgr modify account NAME set parent=OTHER", account.Name, listed(children))
	}
	own, _ := e.AssociationOf(account.Name, "", "")
	var users []string
	for association := range e.AssociationsIn(account.Name) {
		if association.User != "" && !slices.Contains(users, association.User) && len(users) <= fewNames {
			users = append(users, association.User)
		}
	}
	if jobs := e.jobsIn(account.Name); jobs > 0 {
		return refuse(WrongState, "Job(s) active, cancel job(s) before remove: account %s has %d that wait or run; see them with gqueue -A %s, end them with gcancel -A %s", account.Name, jobs, account.Name, account.Name)
	}
	if len(users) > 0 {
		return refuse(WrongState, "account %s has users (%s): delete them from it first, with gacctmgr delete user NAME account=%s", account.Name, listed(users), account.Name)
	}
	if partition := e.policy.PartitionWith(func(p *policy.Partition) bool { return slices.Contains(p.AllowAccounts, account.Name) }); partition != "" {
		return refuse(WrongState, "account %s is in allow_accounts of partition %s: take it out of cluster.toml first, then gcontrol apply", account.Name, partition)
	}
	if nodes := e.policy.OwnedNodes(account.Name); len(nodes) > 0 {
		return refuse(WrongState, "account %s owns the nodes %s: take its [[owner]] out of cluster.toml first, then gcontrol apply", account.Name, spec.FormatHostList(nodes))
	}
	if node := e.lentTo(account.Name); node != "" {
		return refuse(WrongState, "account %s is admitted on node %s: change that first with glend %s --accounts", account.Name, node, node)
	}
	e.dropAssociation(own)
	e.dropAccount(account)
	return nil
}

// jobsIn counts the live jobs of an account and its users.
func (e *accountEditor) jobsIn(account string) int {
	jobs := 0
	for association := range e.AssociationsIn(account) {
		jobs += e.use().associations[association.ID]
	}
	return jobs
}

// edit is the list after the change, ascending, each name once. check is called
// for each name that is added.
func (c *ListEdit) edit(old []string, check func(string) *Refusal) ([]string, *Refusal) {
	var names []string
	if c.Operation != SetList {
		names = slices.Clone(old)
	}
	for _, name := range c.Names {
		if c.Operation == RemoveFromList {
			names = slices.DeleteFunc(names, func(other string) bool { return other == name })
			continue
		}
		if refused := check(name); refused != nil {
			return nil, refused
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// checkRecordName refuses names that could not be typed, listed or told apart.
// Accounts and QOS are in lower case, as in Slurm's database.
func checkRecordName(what, name string) *Refusal {
	switch {
	case name == "":
		return refuse(Invalid, "the %s has no name: type gacctmgr add %s NAME", what, what)
	case !bounds.ValidName(name) || strings.HasPrefix(name, "-"):
		return refuse(Invalid, "%s name %s: use letters, digits and -_. only", what, bounds.Quoted(name))
	case what != "user" && strings.ToLower(name) != name:
		return refuse(Invalid, "%s name %s: use lower case: %s", what, bounds.Quoted(name), strings.ToLower(name))
	}
	return nil
}

// fewNames is how many a refusal names.
const fewNames = 5

func firstOf(names func(func(string) bool)) []string {
	var first []string
	for name := range names {
		if first = append(first, name); len(first) > fewNames {
			break
		}
	}
	return first
}

// listed writes a few names, and says that there are more.
func listed(names []string) string {
	if len(names) > fewNames {
		return strings.Join(names[:fewNames], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
