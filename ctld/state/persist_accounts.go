package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// accounting writes the records that were changed.
func (f *frameWriter) accounting(a *accounting) {
	for qos := range a.AllQOS() {
		f.unlessUntouched(frameQOS, qos)
	}
	for account := range a.Accounts() {
		f.unlessUntouched(frameAccount, account)
	}
	for user := range a.Users() {
		f.frame(frameUser, user)
	}
	for association := range values(a.associations) {
		f.unlessUntouched(frameAssociation, association)
	}
}

func (f *frameWriter) unlessUntouched(kind frameKind, record any) {
	if !untouched(record) {
		f.frame(kind, record)
	}
}

// Errors of the records together are found when all are read (checkAccounting).

func (s *restoring) restoreQOS(qos *QOS) error {
	if _, twice := s.QOS(qos.Name); twice && qos.Name != NormalQOS {
		return fmt.Errorf("QOS %q is there twice", qos.Name)
	}
	s.putQOS(qos)
	return nil
}

func (s *restoring) restoreAccount(account *Account) error {
	if _, twice := s.Account(account.Name); twice && account.Name != policy.RootAccount {
		return fmt.Errorf("account %q is there twice", account.Name)
	}
	s.putAccount(account)
	return nil
}

func (s *restoring) restoreUser(user *User) error {
	if _, twice := s.User(user.Name); twice {
		return fmt.Errorf("user %q is there twice", user.Name)
	}
	s.putUser(user)
	return nil
}

func (s *restoring) restoreAssociation(association *Association) error {
	if _, twice := s.Association(association.ID); twice && association.ID != rootAssociation {
		return fmt.Errorf("association %d is there twice", association.ID)
	}
	s.putAssociation(association)
	return nil
}
