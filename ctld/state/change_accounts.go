package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// ChangeAccounts adds, changes and deletes accounts, users, associations and
// QOS: all that it lists, in this order, or nothing. The api decides who may.
type ChangeAccounts struct {
	Changes []AccountChange `cbor:"1,keyasint"`
}

// ChangeAction is what is done to a record.
type ChangeAction uint8

// Actions. Numbers are append-only.
const (
	AddRecord    ChangeAction = 1
	ModifyRecord ChangeAction = 2
	DeleteRecord ChangeAction = 3
)

// RecordKind is what a change is about.
type RecordKind uint8

// Kinds of record. Numbers are append-only.
const (
	AccountRecord     RecordKind = 1 // Account, with its association
	UserRecord        RecordKind = 2 // User, with all associations when it is deleted
	AssociationRecord RecordKind = 3 // User in Account, in Partition or all
	QOSRecord         RecordKind = 4 // QOS
)

// AccountChange is one change of one record. What is nil stays as it is, or at
// its default in a new record.
type AccountChange struct {
	Action    ChangeAction `cbor:"1,keyasint"`
	Record    RecordKind   `cbor:"2,keyasint"`
	Account   string       `cbor:"3,keyasint,omitempty"`
	User      string       `cbor:"4,keyasint,omitempty"`
	Partition string       `cbor:"5,keyasint,omitempty"`
	QOS       string       `cbor:"6,keyasint,omitempty"`

	// Of accounts; the description of QOS too.
	Parent       *string   `cbor:"10,keyasint,omitempty"`
	Description  *string   `cbor:"11,keyasint,omitempty"`
	Organization *string   `cbor:"12,keyasint,omitempty"`
	Coordinators *ListEdit `cbor:"13,keyasint,omitempty"`
	// Of users.
	DefaultAccount *string     `cbor:"14,keyasint,omitempty"`
	Level          *AdminLevel `cbor:"15,keyasint,omitempty"`
	// Of the associations of accounts and users; the priority, the limits and
	// the usage of QOS too.
	Shares      *uint32       `cbor:"20,keyasint,omitempty"`
	ShareParent bool          `cbor:"21,keyasint,omitempty"`
	Priority    *uint32       `cbor:"22,keyasint,omitempty"`
	Limits      []LimitChange `cbor:"23,keyasint,omitempty"`
	AllowedQOS  *ListEdit     `cbor:"24,keyasint,omitempty"`
	DefaultQOS  *string       `cbor:"25,keyasint,omitempty"` // "" = the parent's
	ResetUsage  bool          `cbor:"26,keyasint,omitempty"`
	// Of QOS.
	Preempts       *ListEdit           `cbor:"30,keyasint,omitempty"`
	PreemptMode    *policy.PreemptMode `cbor:"31,keyasint,omitempty"`
	GraceTimeS     *uint32             `cbor:"32,keyasint,omitempty"`
	ExemptTimeS    *int64              `cbor:"33,keyasint,omitempty"` // -1 = the cluster's
	UsageFactorPPM *int64              `cbor:"34,keyasint,omitempty"` // -1 = 1,000,000
	FlagsOn        QOSFlags            `cbor:"35,keyasint,omitempty"`
	FlagsOff       QOSFlags            `cbor:"36,keyasint,omitempty"`
}

// ListOperation is how a list of names is changed: =, += or -=.
type ListOperation uint8

// List operations. Numbers are append-only.
const (
	SetList        ListOperation = 1
	AddToList      ListOperation = 2
	RemoveFromList ListOperation = 3
)

// ListEdit changes a list of names. Set to nothing, the list is as in a new
// record.
type ListEdit struct {
	Operation ListOperation `cbor:"1,keyasint"`
	Names     []string      `cbor:"2,keyasint,omitempty"`
}

func (ChangeAccounts) kind() Kind { return KindChangeAccounts }

func (c ChangeAccounts) apply(s *State, result *Result) {
	before := s.accounting
	s.accounting = before.copy()
	if result.Refused = s.changeAccounts(&c); result.Refused != nil {
		s.accounting = before
		return
	}
	s.changes.accounts = true
}

// TryAccounts says what applying a command to the state here would refuse, and
// how accounts would be after it.
func (v *View) TryAccounts(c ChangeAccounts) (*View, *Refusal) {
	trial := &State{tables: v.tables}
	trial.accounting = v.accounting.rebuilt()
	if refused := trial.changeAccounts(&c); refused != nil {
		return nil, refused
	}
	return &View{tables: trial.tables}, nil
}

// rebuilt is a copy that shares no tables, so that others may read it.
func (a *accounting) rebuilt() accounting {
	c := emptyAccounting()
	c.nextAssociation = a.nextAssociation
	for qos := range a.AllQOS() {
		c.putQOS(qos)
	}
	for account := range a.Accounts() {
		c.putAccount(account)
	}
	for user := range a.Users() {
		c.putUser(user)
	}
	for association := range values(a.associations) {
		c.putAssociation(association)
	}
	return c
}

// accountEditor applies one ChangeAccounts.
type accountEditor struct {
	*State
	live *liveUse // nil until somebody asks
	// tree says that lists of QOS, defaults or parents have changed.
	tree bool
}

func (s *State) changeAccounts(c *ChangeAccounts) *Refusal {
	switch {
	case len(c.Changes) == 0:
		return refuse(Invalid, "nothing to change is named")
	case len(c.Changes) > bounds.MaxAccountChanges:
		return refuse(Exhausted, "%d changes in one request are too many: at most %d", len(c.Changes), bounds.MaxAccountChanges)
	}
	e := accountEditor{State: s}
	for i := range c.Changes {
		if refused := e.change(&c.Changes[i]); refused != nil {
			return refused
		}
	}
	if e.tree {
		return s.checkAllowedDefaults()
	}
	return nil
}

func (e *accountEditor) change(c *AccountChange) *Refusal {
	if refused := c.check(); refused != nil {
		return refused
	}
	switch c.Record {
	case AccountRecord:
		return e.changeAccount(c)
	case UserRecord:
		return e.changeUser(c)
	case AssociationRecord:
		return e.changeAssociation(c)
	default:
		return e.changeQOS(c)
	}
}

// check refuses what makes no sense in any state.
func (c *AccountChange) check() *Refusal {
	if c.Action < AddRecord || c.Action > DeleteRecord || c.Record < AccountRecord || c.Record > QOSRecord {
		return refuse(Invalid, "no such change: add, modify or delete an account, a user or a QOS")
	}
	if c.Shares != nil && *c.Shares > bounds.MaxShares {
		return refuse(Invalid, "fairshare=%d is too high: at most %d, or parent", *c.Shares, bounds.MaxShares)
	}
	if c.Priority != nil && *c.Priority > bounds.MaxLimitCount {
		return refuse(Invalid, "priority=%d is too high: at most %d", *c.Priority, bounds.MaxLimitCount)
	}
	for _, text := range []*string{c.Description, c.Organization} {
		if text != nil && (len(*text) > bounds.MaxTextBytes || !bounds.ValidText(*text)) {
			return refuse(Invalid, "a description or organization is longer than %d bytes or not plain text: shorten it", bounds.MaxTextBytes)
		}
	}
	for i := range c.Limits {
		if refused := c.Limits[i].check(c.Record == QOSRecord); refused != nil {
			return refused
		}
	}
	for _, edit := range []*ListEdit{c.Coordinators, c.AllowedQOS, c.Preempts} {
		if edit != nil && (edit.Operation < SetList || edit.Operation > RemoveFromList) {
			return refuse(Invalid, "a list is changed with =, += or -=")
		}
	}
	return nil
}

// liveUse counts the jobs that wait or hold nodes, by what they are charged to
// and by QOS.
type liveUse struct {
	associations map[uint32]int
	qos          map[string]int
}

// use counts once for each command that asks.
func (e *accountEditor) use() *liveUse {
	if e.live == nil {
		e.live = &liveUse{associations: map[uint32]int{}, qos: map[string]int{}}
		for job := range e.LiveJobs() {
			e.live.associations[job.Association]++
			e.live.qos[job.Spec.QOS]++
		}
	}
	return e.live
}
