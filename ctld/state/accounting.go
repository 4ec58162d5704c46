package state

import (
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// accounting holds accounts, users and QOS: a part of tables, copied on write
// like the rest. The root account with its association and the QOS "normal"
// always exist; as long as nobody has changed them they are not persisted.
type accounting struct {
	accounts     *btree.Map[string, *Account]
	users        *btree.Map[string, *User]
	associations *btree.Map[uint32, *Association]
	qos          *btree.Map[string, *QOS]
	// nextAssociation is the next number: none is given twice, because jobs
	// that are over keep theirs.
	nextAssociation uint32

	// Indices, kept by the put and drop functions here. Zero bytes, which no
	// name has, separate the parts of a key.
	below     *btree.Map[string, struct{}] // parent, account
	byAccount *btree.Map[string, uint32]   // account, user, partition
	byUser    *btree.Map[string, uint32]   // user, account, partition; not of accounts themselves
}

// Records that always exist.
const (
	// NormalQOS is the QOS of jobs without another.
	NormalQOS       = "normal"
	rootAssociation = 1
)

func defaultRoot() *Account {
	return &Account{Name: policy.RootAccount, Description: "default root account", Organization: "root"}
}
func defaultRootAssociation() *Association {
	return &Association{ID: rootAssociation, Account: policy.RootAccount, Shares: DefaultShares}
}
func defaultNormal() *QOS { return &QOS{Name: NormalQOS, Description: "Normal QOS default"} }

func emptyAccounting() accounting {
	a := accounting{
		accounts:        new(btree.Map[string, *Account]),
		users:           new(btree.Map[string, *User]),
		associations:    new(btree.Map[uint32, *Association]),
		qos:             new(btree.Map[string, *QOS]),
		nextAssociation: rootAssociation + 1,
		below:           new(btree.Map[string, struct{}]),
		byAccount:       new(btree.Map[string, uint32]),
		byUser:          new(btree.Map[string, uint32]),
	}
	a.putAccount(defaultRoot())
	a.putAssociation(defaultRootAssociation())
	a.putQOS(defaultNormal())
	return a
}

func (a *accounting) copy() accounting {
	c := *a
	c.accounts = a.accounts.Copy()
	c.users = a.users.Copy()
	c.associations = a.associations.Copy()
	c.qos = a.qos.Copy()
	c.below = a.below.Copy()
	c.byAccount = a.byAccount.Copy()
	c.byUser = a.byUser.Copy()
	return c
}

// untouched reports whether a record is as in every new cluster.
func untouched(record any) bool {
	switch record := record.(type) {
	case *Account:
		return reflect.DeepEqual(record, defaultRoot())
	case *Association:
		return reflect.DeepEqual(record, defaultRootAssociation())
	case *QOS:
		return reflect.DeepEqual(record, defaultNormal())
	}
	return false
}

func accountingKey(parts ...string) string { return strings.Join(parts, "\x00") }

// Account finds an account by its name.
func (a *accounting) Account(name string) (*Account, bool) { return a.accounts.Get(name) }

// Accounts are all accounts, ascending by name.
func (a *accounting) Accounts() iter.Seq[*Account] { return values(a.accounts) }

// User finds a user by the login name.
func (a *accounting) User(name string) (*User, bool) { return a.users.Get(name) }

// Users are all that accounting knows, ascending by name.
func (a *accounting) Users() iter.Seq[*User] { return values(a.users) }

// QOS finds a quality of service by its name.
func (a *accounting) QOS(name string) (*QOS, bool) { return a.qos.Get(name) }

// AllQOS are all of them, ascending by name.
func (a *accounting) AllQOS() iter.Seq[*QOS] { return values(a.qos) }

// Association finds one by its number.
func (a *accounting) Association(id uint32) (*Association, bool) { return a.associations.Get(id) }

// AssociationOf finds the one of an account (user and partition are ""), or of
// a user in it, for all partitions (partition is "") or for one.
func (a *accounting) AssociationOf(account, user, partition string) (*Association, bool) {
	id, found := a.byAccount.Get(accountingKey(account, user, partition))
	if !found {
		return nil, false
	}
	return a.Association(id)
}

// AssociationsIn are those of an account: its own first, then its users',
// ascending by user and partition.
func (a *accounting) AssociationsIn(account string) iter.Seq[*Association] {
	return a.associationsUnder(a.byAccount, account)
}

// AssociationsOf are those of a user, ascending by account and partition.
func (a *accounting) AssociationsOf(user string) iter.Seq[*Association] {
	return a.associationsUnder(a.byUser, user)
}

func (a *accounting) associationsUnder(index *btree.Map[string, uint32], name string) iter.Seq[*Association] {
	prefix := name + "\x00"
	return func(yield func(*Association) bool) {
		index.Ascend(prefix, func(key string, id uint32) bool {
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			association, _ := a.Association(id)
			return yield(association)
		})
	}
}

// AccountsBelow are the accounts directly below one, ascending by name.
func (a *accounting) AccountsBelow(parent string) iter.Seq[string] {
	prefix := parent + "\x00"
	return func(yield func(string) bool) {
		a.below.Ascend(prefix, func(key string, _ struct{}) bool {
			name, found := strings.CutPrefix(key, prefix)
			return found && yield(name)
		})
	}
}

// IsBelow reports whether an account is another one or somewhere below it.
func (a *accounting) IsBelow(account, top string) bool {
	for range bounds.MaxAccountDepth + 1 {
		if account == top {
			return true
		}
		record, known := a.Account(account)
		if !known || account == policy.RootAccount {
			return false
		}
		account = record.Parent
	}
	return false
}

// Coordinates reports whether a user is a coordinator of what a job is charged to,
// or of an account above it: they may cancel, hold, release, requeue and update it
// as its owner may (sacctmgr(1), coordinator).
func (a *accounting) Coordinates(user string, job *Job) bool {
	association, known := a.Association(job.Association)
	return known && a.coordinatesAccount(user, association.Account)
}

// CoordinatesAccount reports the same of an account; nobody coordinates as "".
func (a *accounting) CoordinatesAccount(user, name string) bool {
	return a.coordinatesAccount(user, name)
}

// coordinatesAccount reports the same of an account.
func (a *accounting) coordinatesAccount(user, name string) bool {
	account, known := a.Account(name)
	if user == "" || !known {
		return false
	}
	for range bounds.MaxAccountDepth + 1 {
		if slices.Contains(account.Coordinators, user) {
			return true
		}
		if account.Name == policy.RootAccount {
			break
		}
		account, _ = a.Account(account.Parent)
	}
	return false
}

// IsCoordinator reports whether a user coordinates any account.
func (a *accounting) IsCoordinator(user string) bool {
	for account := range a.Accounts() {
		if slices.Contains(account.Coordinators, user) {
			return true
		}
	}
	return false
}

// AccountTree are all associations as a tree: the root's first, each account's
// users after it, then the accounts below it; the depth of the root is 0.
func (a *accounting) AccountTree() iter.Seq2[int, *Association] {
	return func(yield func(int, *Association) bool) { a.walkTree(policy.RootAccount, 0, yield) }
}

func (a *accounting) walkTree(account string, depth int, yield func(int, *Association) bool) bool {
	for association := range a.AssociationsIn(account) {
		at := depth
		if association.User != "" {
			at++
		}
		if !yield(at, association) {
			return false
		}
	}
	for child := range a.AccountsBelow(account) {
		if !a.walkTree(child, depth+1, yield) {
			return false
		}
	}
	return true
}

// parentOf is the association above one; nil for the root's.
func (a *accounting) parentOf(association *Association) *Association {
	account := association.Account
	if association.User == "" {
		record, _ := a.Account(account)
		account = record.Parent
	}
	if account == "" {
		return nil
	}
	parent, _ := a.AssociationOf(account, "", "")
	return parent
}

// HasAccounts reports whether somebody has made an account or an association.
func (a *accounting) HasAccounts() bool { return a.associations.Len() > 1 || a.users.Len() > 0 }

// newAssociationID gives the next number; 0 when none is left.
func (a *accounting) newAssociationID() uint32 {
	if a.nextAssociation == math.MaxUint32 {
		return 0
	}
	a.nextAssociation++
	return a.nextAssociation - 1
}

func (a *accounting) putAccount(account *Account) {
	if old, known := a.accounts.Get(account.Name); known && old.Parent != account.Parent {
		a.below.Delete(accountingKey(old.Parent, old.Name))
	}
	a.accounts.Set(account.Name, account)
	if account.Name != policy.RootAccount {
		a.below.Set(accountingKey(account.Parent, account.Name), struct{}{})
	}
}

func (a *accounting) dropAccount(account *Account) {
	a.accounts.Delete(account.Name)
	a.below.Delete(accountingKey(account.Parent, account.Name))
}

func (a *accounting) putUser(user *User)   { a.users.Set(user.Name, user) }
func (a *accounting) dropUser(name string) { a.users.Delete(name) }
func (a *accounting) putQOS(qos *QOS)      { a.qos.Set(qos.Name, qos) }
func (a *accounting) dropQOS(name string)  { a.qos.Delete(name) }

// putAssociation stores one; account, user and partition of a number never
// change.
func (a *accounting) putAssociation(association *Association) {
	a.associations.Set(association.ID, association)
	a.byAccount.Set(accountingKey(association.Account, association.User, association.Partition), association.ID)
	if association.User != "" {
		a.byUser.Set(accountingKey(association.User, association.Account, association.Partition), association.ID)
	}
}

func (a *accounting) dropAssociation(association *Association) {
	a.associations.Delete(association.ID)
	a.byAccount.Delete(accountingKey(association.Account, association.User, association.Partition))
	if association.User != "" {
		a.byUser.Delete(accountingKey(association.User, association.Account, association.Partition))
	}
}

func (a *accounting) hasAccount(name string) bool {
	_, known := a.Account(name)
	return known
}
