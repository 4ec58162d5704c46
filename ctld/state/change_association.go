package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

func (e *accountEditor) changeAssociation(c *AccountChange) *Refusal {
	old, known := e.AssociationOf(c.Account, c.User, c.Partition)
	switch {
	case c.User == "":
		return refuse(Invalid, "the association names no user: type user=NAME, or change the account itself")
	case !known && c.Action != AddRecord:
		return refuse(NotFound, "there is no association of %s: gacctmgr show association tells which there are", describeAssociation(c.Account, c.User, c.Partition))
	case known && c.Action == AddRecord:
		return refuse(WrongState, "the association of %s exists already: change it with gacctmgr modify user %s where account=%s set …", describeAssociation(c.Account, c.User, c.Partition), c.User, c.Account)
	case c.Action == DeleteRecord:
		return e.deleteAssociation(old)
	case c.Action == AddRecord:
		return e.addAssociation(c)
	}
	changed, refused := e.changedAssociation(old, c)
	if refused == nil {
		e.putAssociation(changed)
	}
	return refused
}

// addAssociation also makes the user known, with this account as the default.
func (e *accountEditor) addAssociation(c *AccountChange) *Refusal {
	if _, known := e.Account(c.Account); !known {
		return refuse(NotFound, "account %s does not exist: add it first with gacctmgr add account %s", bounds.Quoted(c.Account), bounds.Clip(c.Account, 64))
	}
	if c.Partition != "" {
		if _, known := e.policy.Partition(c.Partition); !known {
			return refuse(NotFound, "invalid partition specified: %.128s\n%s", c.Partition, e.policy.PartitionNames())
		}
	}
	user, known := e.User(c.User)
	if !known {
		if refused := e.checkNewUser(c.User); refused != nil {
			return refused
		}
		user = &User{Name: c.User}
	}
	added, refused := e.newAssociation(c.Account, c.User, c.Partition)
	if refused != nil {
		return refused
	}
	changed, refused := e.changedAssociation(added, c)
	if refused != nil {
		return refused
	}
	e.putAssociation(changed)
	if kept := *user; kept.DefaultAccount == "" {
		kept.DefaultAccount = c.Account
		e.putUser(&kept)
	}
	return nil
}

// newAssociation is one with a new number, not stored yet.
func (e *accountEditor) newAssociation(account, user, partition string) (*Association, *Refusal) {
	if e.associations.Len() >= bounds.MaxAssociations {
		return nil, refuse(Exhausted, "there are %d associations, and cannot be more: delete some first", e.associations.Len())
	}
	id := e.newAssociationID()
	if id == 0 {
		return nil, refuse(Exhausted, "no association numbers are left")
	}
	return &Association{ID: id, Account: account, User: user, Partition: partition, Shares: DefaultShares}, nil
}

// changedAssociation is the association with a change applied.
func (e *accountEditor) changedAssociation(old *Association, c *AccountChange) (*Association, *Refusal) {
	association := *old
	if c.Shares != nil {
		association.Shares, association.ShareParent = *c.Shares, false
	}
	if c.ShareParent {
		if association.ID == rootAssociation {
			return nil, refuse(Invalid, "the root account has no parent: give it a number as fairshare")
		}
		association.Shares, association.ShareParent = DefaultShares, true
	}
	if c.Priority != nil {
		association.Priority = *c.Priority
	}
	association.Limits = association.Limits.changed(c.Limits)
	if c.AllowedQOS != nil {
		names, refused := c.AllowedQOS.edit(e.allowedNow(old, c), e.checkQOSKnown)
		if refused != nil {
			return nil, refused
		}
		association.QOS = names
		e.tree = true
	}
	if c.DefaultQOS != nil {
		if refused := e.checkQOSKnown(*c.DefaultQOS); refused != nil && *c.DefaultQOS != "" {
			return nil, refused
		}
		association.DefaultQOS = *c.DefaultQOS
		e.tree = true
	}
	if c.ResetUsage {
		association.Usage = Usage{}
	}
	return &association, nil
}

// allowedNow is the list that += and -= start from: its own, or the one it
// has from above.
func (e *accountEditor) allowedNow(old *Association, c *AccountChange) []string {
	if stored, known := e.Association(old.ID); known {
		return e.AllowedQOS(stored)
	}
	if c.Record == AccountRecord { // new: what it would have
		parent := policy.RootAccount
		if c.Parent != nil {
			parent = *c.Parent
		}
		if above, known := e.AssociationOf(parent, "", ""); known {
			return e.AllowedQOS(above)
		}
		return nil
	}
	above, _ := e.AssociationOf(old.Account, "", "")
	return e.AllowedQOS(above)
}

func (e *accountEditor) checkQOSKnown(name string) *Refusal {
	if _, known := e.QOS(name); !known {
		return refuse(NotFound, "QOS %s does not exist: add it first with gacctmgr add qos %s; there are %s", bounds.Quoted(name), bounds.Clip(name, 64), e.qosNames())
	}
	return nil
}

func (a *accounting) qosNames() string {
	return listed(firstOf(func(yield func(string) bool) {
		for qos := range a.AllQOS() {
			if !yield(qos.Name) {
				return
			}
		}
	}))
}

// deleteAssociation takes a user out of an account. With the last one the user
// is forgotten, unless an admin level is to be kept.
func (e *accountEditor) deleteAssociation(old *Association) *Refusal {
	if jobs := e.use().associations[old.ID]; jobs > 0 {
		return refuse(WrongState, "Job(s) active, cancel job(s) before remove: %s has %d that wait or run; see them with gqueue -u %s -A %s, end them with gcancel -u %s -A %s",
			describeAssociation(old.Account, old.User, old.Partition), jobs, old.User, old.Account, old.User, old.Account)
	}
	e.dropAssociation(old)
	user, _ := e.User(old.User)
	left := slices.Collect(e.AssociationsOf(old.User))
	switch {
	case len(left) == 0 && user.Level == NoAdmin:
		e.forgetUser(old.User)
	case len(left) == 0:
		kept := *user
		kept.DefaultAccount = ""
		e.putUser(&kept)
	case !e.hasAssociation(old.User, user.DefaultAccount):
		return refuse(WrongState, "account %s is the default account of user %s: give another one first, with gacctmgr modify user %s set defaultaccount=%s", old.Account, old.User, old.User, left[0].Account)
	}
	return nil
}

// describeAssociation names one in a message.
func describeAssociation(account, user, partition string) string {
	text := "account " + quotedUnlessValid(account)
	if user != "" {
		text = "user " + quotedUnlessValid(user) + " in " + text
	}
	if partition != "" {
		text += ", partition " + quotedUnlessValid(partition)
	}
	return text
}

func quotedUnlessValid(name string) string {
	if bounds.ValidName(name) {
		return name
	}
	return bounds.Quoted(name)
}
