package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// checkAccounting says what is wrong with accounts, users, associations and QOS
// together, and with the indices over them. Commands refuse all of this in
// better words; this is for Check and for restored states.
func (a *accounting) checkAccounting() error {
	return errors.Join(a.checkAllQOS(), a.checkAccounts(), a.checkUsers(), a.checkAssociations(), a.checkAccountIndices())
}

func (a *accounting) checkAllQOS() error {
	if _, known := a.QOS(NormalQOS); !known {
		return errors.New("the QOS normal is missing")
	}
	for qos := range a.AllQOS() {
		if refused := checkRecordName("qos", qos.Name); refused != nil {
			return refused
		}
		if !ascending(qos.Preempts) || policy.CheckPreemptMode(qos.PreemptMode) != nil {
			return fmt.Errorf("QOS %s: its preemption is impossible", qos.Name)
		}
		for _, name := range qos.Preempts {
			if _, known := a.QOS(name); !known {
				return fmt.Errorf("QOS %s preempts %q, which is missing", qos.Name, name)
			}
		}
		if refused := a.checkPreemptLoop(qos.Name); refused != nil {
			return refused
		}
		if err := errors.Join(qos.Limits.check(true), qos.Usage.check()); err != nil {
			return fmt.Errorf("QOS %s: %w", qos.Name, err)
		}
	}
	return nil
}

func (a *accounting) checkAccounts() error {
	for account := range a.Accounts() {
		if refused := checkRecordName("account", account.Name); refused != nil {
			return refused
		}
		if (account.Parent == "") != (account.Name == policy.RootAccount) || !a.IsBelow(account.Name, policy.RootAccount) {
			return fmt.Errorf("account %s is not below the root", account.Name)
		}
		if _, known := a.AssociationOf(account.Name, "", ""); !known {
			return fmt.Errorf("account %s has no association", account.Name)
		}
		if !ascending(account.Coordinators) {
			return fmt.Errorf("account %s: its coordinators are not in order", account.Name)
		}
		for _, name := range account.Coordinators {
			if _, known := a.User(name); !known {
				return fmt.Errorf("account %s: its coordinator %q is missing", account.Name, name)
			}
		}
	}
	if _, known := a.Account(policy.RootAccount); !known {
		return errors.New("the root account is missing")
	}
	return nil
}

func (a *accounting) checkUsers() error {
	for user := range a.Users() {
		if refused := checkRecordName("user", user.Name); refused != nil {
			return refused
		}
		if user.Level > Administrator {
			return fmt.Errorf("user %s has no such level as %d", user.Name, user.Level)
		}
		if has, wants := a.hasAssociation(user.Name, user.DefaultAccount), user.DefaultAccount != ""; has != wants {
			return fmt.Errorf("user %s: the default account %q is not one of theirs", user.Name, user.DefaultAccount)
		}
	}
	return nil
}

func (a *accounting) checkAssociations() error {
	for association := range values(a.associations) {
		what := describeAssociation(association.Account, association.User, association.Partition)
		wrong := func(text string) error { return fmt.Errorf("association %d of %s: %s", association.ID, what, text) }
		_, accountKnown := a.Account(association.Account)
		_, userKnown := a.User(association.User)
		switch {
		case association.ID == 0 || association.ID >= a.nextAssociation:
			return wrong("its number was never given")
		case !accountKnown || association.User != "" && !userKnown:
			return wrong("its account or user is missing")
		case association.User == "" && association.Partition != "" || strings.Contains(association.Partition, "\x00"):
			return wrong("its partition is impossible")
		case (association.ID == rootAssociation) != (association.Account == policy.RootAccount && association.User == ""):
			return wrong("the root's association is another one")
		case association.Shares > bounds.MaxShares || association.ShareParent && association.ID == rootAssociation:
			return wrong("its share is impossible")
		case !ascending(association.QOS):
			return wrong("its QOS are not in order")
		}
		for _, name := range association.QOS {
			if _, known := a.QOS(name); !known {
				return wrong("its QOS " + bounds.Quoted(name) + " is missing")
			}
		}
		if err := errors.Join(association.Limits.check(false), association.Usage.check()); err != nil {
			return wrong(err.Error())
		}
	}
	if refused := a.checkAllowedDefaults(); refused != nil {
		return refused
	}
	return nil
}

// checkAllowedDefaults refuses a default QOS that an association may not use,
// its own or its parent's.
func (a *accounting) checkAllowedDefaults() *Refusal {
	for association := range values(a.associations) {
		name := association.DefaultQOS
		if name == "" {
			continue
		}
		if allowed := a.AllowedQOS(association); !slices.Contains(allowed, name) {
			what := describeAssociation(association.Account, association.User, association.Partition)
			return refuse(Invalid, "QOS %s would be the default of %s, which may only use %s: add it to the list with qos+=%s, or take another default", quotedUnlessValid(name), what, listed(allowed), bounds.Clip(name, 64))
		}
	}
	return nil
}

// checkAccountIndices compares the indices with rebuilt ones.
func (a *accounting) checkAccountIndices() error {
	fresh := a.rebuilt()
	if !slices.Equal(a.below.Keys(), fresh.below.Keys()) {
		return errors.New("the index of accounts by their parents differs from the records")
	}
	if !slices.Equal(a.byAccount.Keys(), fresh.byAccount.Keys()) || !slices.Equal(a.byAccount.Values(), fresh.byAccount.Values()) {
		return errors.New("the index of associations by account differs from the records")
	}
	if !slices.Equal(a.byUser.Keys(), fresh.byUser.Keys()) || !slices.Equal(a.byUser.Values(), fresh.byUser.Values()) {
		return errors.New("the index of associations by user differs from the records")
	}
	if a.byAccount.Len() != a.associations.Len() {
		return errors.New("two associations are of the same account, user and partition")
	}
	return nil
}

func ascending(names []string) bool {
	for i := range names {
		if i > 0 && names[i-1] >= names[i] {
			return false
		}
	}
	return true
}
