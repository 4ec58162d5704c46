package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

func (e *accountEditor) changeUser(c *AccountChange) *Refusal {
	old, known := e.User(c.User)
	switch {
	case !known && c.Action != AddRecord:
		return refuse(NotFound, "user %s is not known: gacctmgr show user tells who is", bounds.Quoted(c.User))
	case known && c.Action == AddRecord:
		return refuse(WrongState, "user %s exists already: change them with gacctmgr modify user %s set …", c.User, c.User)
	case c.Action == DeleteRecord:
		return e.deleteUser(old)
	}
	user := &User{Name: c.User}
	if known {
		kept := *old
		user = &kept
	} else if refused := e.checkNewUser(c.User); refused != nil {
		return refused
	}
	if c.DefaultAccount != nil {
		if !e.hasAssociation(c.User, *c.DefaultAccount) {
			return refuse(Invalid, "user %s has no association with account %s, so that it cannot be the default: add one first with gacctmgr add user %s account=%s", c.User, bounds.Quoted(*c.DefaultAccount), c.User, bounds.Clip(*c.DefaultAccount, 64))
		}
		user.DefaultAccount = *c.DefaultAccount
	}
	if c.Level != nil {
		if *c.Level > Administrator {
			return refuse(Invalid, "no such admin level: use adminlevel=None, Operator or Admin")
		}
		user.Level = *c.Level
	}
	e.putUser(user)
	return nil
}

func (e *accountEditor) checkNewUser(name string) *Refusal {
	if e.users.Len() >= bounds.MaxUsers {
		return refuse(Exhausted, "there are %d users, and cannot be more: delete some first", e.users.Len())
	}
	return checkRecordName("user", name)
}

func (a *accounting) hasAssociation(user, account string) bool {
	for association := range a.AssociationsOf(user) {
		if association.Account == account {
			return true
		}
	}
	return false
}

// deleteUser forgets a user with all associations.
func (e *accountEditor) deleteUser(user *User) *Refusal {
	all := slices.Collect(e.AssociationsOf(user.Name))
	jobs := 0
	for _, association := range all {
		jobs += e.use().associations[association.ID]
	}
	if jobs > 0 {
		return refuse(WrongState, "Job(s) active, cancel job(s) before remove: user %s has %d that wait or run; see them with gqueue -u %s, end them with gcancel -u %s", user.Name, jobs, user.Name, user.Name)
	}
	for _, association := range all {
		e.dropAssociation(association)
	}
	e.forgetUser(user.Name)
	return nil
}

// forgetUser takes a person without associations out of everything.
func (e *accountEditor) forgetUser(name string) {
	e.dropUser(name)
	for _, account := range slices.Collect(e.Accounts()) {
		if at := slices.Index(account.Coordinators, name); at >= 0 {
			changed := *account
			changed.Coordinators = slices.Delete(slices.Clone(account.Coordinators), at, at+1)
			e.putAccount(&changed)
		}
	}
}
