package state

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
)

// accounts makes a random ChangeAccounts, often one that makes no sense.
func (w *walker) accounts() Command {
	var c ChangeAccounts
	for range 1 + w.Intn(3) {
		c.Changes = append(c.Changes, w.accountChange())
	}
	return c
}

// labs are accounts with everybody in them, so that jobs are charged to some.
func (w *walker) labs() Command {
	var c ChangeAccounts
	for _, account := range []string{"a0", "a1"} {
		c.Changes = append(c.Changes, AccountChange{Action: AddRecord, Record: AccountRecord, Account: account})
		for _, user := range []string{"u0", "u1000", "u1001"} {
			c.Changes = append(c.Changes, AccountChange{Action: AddRecord, Record: AssociationRecord, Account: account, User: user})
		}
	}
	return c
}

func (w *walker) accountName() string {
	if w.chance(10) {
		return []string{"", "root", "No Such", "nobody"}[w.Intn(4)]
	}
	return fmt.Sprintf("a%d", w.Intn(4))
}

func (w *walker) userName() string { return fmt.Sprintf("u%d", w.uid()) }

func (w *walker) qosName() string {
	return []string{NormalQOS, "q0", "q1", "q2", "q3", "q9"}[w.Intn(6)]
}

func (w *walker) accountChange() AccountChange {
	c := AccountChange{
		Action: []ChangeAction{AddRecord, AddRecord, ModifyRecord, ModifyRecord, DeleteRecord}[w.Intn(5)],
		Record: RecordKind(1 + w.Intn(4)),
	}
	switch c.Record {
	case AccountRecord:
		c.Account = w.accountName()
		if w.chance(50) {
			c.Parent = ptr(w.accountName())
		}
		if w.chance(10) {
			c.Coordinators = &ListEdit{Operation: ListOperation(w.Intn(5)), Names: []string{w.userName()}}
		}
	case AssociationRecord:
		c.Account, c.User = w.accountName(), w.userName()
		if w.chance(20) {
			c.Partition = []string{"main", "gpu"}[w.Intn(2)]
		}
	case UserRecord:
		c.User = w.userName()
		if w.chance(50) {
			c.DefaultAccount = ptr(w.accountName())
		}
		if w.chance(30) {
			c.Level = ptr(AdminLevel(w.Intn(4)))
		}
	default:
		c.QOS = w.qosName()
		if w.chance(40) {
			c.Preempts = &ListEdit{Operation: ListOperation(w.Intn(4)), Names: []string{w.qosName()}}
		}
		c.FlagsOn, c.FlagsOff = QOSFlags(w.Intn(8)), QOSFlags(w.Intn(8))
		c.PreemptMode = ptr(sched.PreemptMode(w.Intn(7)))
		c.UsageFactorPPM, c.ExemptTimeS = ptr(int64(w.Intn(3)-1)), ptr(int64(w.Intn(3)-1))
	}
	w.settings(&c)
	return c
}

func (w *walker) settings(c *AccountChange) {
	if w.chance(30) {
		c.Shares = ptr(uint32(w.Intn(20)))
	}
	c.ShareParent = w.chance(5)
	for range w.Intn(3) {
		change := LimitChange{Limit: LimitKind(w.Intn(19)), Value: uint64(w.Intn(50)), Clear: w.chance(30)}
		if row := change.Limit.row(); row.amounts != nil {
			change.TRES = []string{"cpu", "mem", "gres/gpu:m", "license/x", "energy"}[w.Intn(5)]
		}
		if w.chance(90) && (change.Limit.row().name == "" || change.Limit.row().qosOnly && c.Record != QOSRecord || change.TRES == "energy") {
			continue
		}
		c.Limits = append(c.Limits, change)
	}
	if c.Record == QOSRecord || c.Record == UserRecord {
		return
	}
	if w.chance(15) {
		c.AllowedQOS = &ListEdit{Operation: ListOperation(1 + w.Intn(3)), Names: []string{w.qosName(), w.qosName()}[:w.Intn(3)]}
	}
	if w.chance(10) {
		c.DefaultQOS = ptr([]string{"", w.qosName()}[w.Intn(2)])
	}
}

// tryAccounts checks that a dry run says what applying said, and what it left,
// without touching the view it starts from.
func tryAccounts(t *testing.T, before *View, command Command, after *State, result *Result) {
	c, isChange := command.(ChangeAccounts)
	if !isChange || result.Repeated || result.Refused != nil && result.Refused.Code == RequestReuse {
		return
	}
	tried, refused := before.TryAccounts(c)
	if fmt.Sprint(refused) != fmt.Sprint(result.Refused) {
		t.Fatalf("a dry run of %+v says %v, and applying %v", c, refused, result.Refused)
	}
	if refused != nil {
		return
	}
	tried.BelowWhatRuns(&c)
	if err := tried.checkAccounting(); err != nil {
		t.Fatal(err)
	}
	if recordsOf(tried) != recordsOf(after.View()) {
		t.Fatalf("a dry run of %+v leaves other records than applying it", c)
	}
	for depth, association := range tried.AccountTree() {
		tried.AssociationMessage(association, depth)
	}
	for qos := range tried.AllQOS() {
		QOSMessage(qos)
	}
}

// recordsOf is the digest of all records of accounts.
func recordsOf(v *View) Digest {
	var all []any
	for account := range v.Accounts() {
		all = append(all, account)
	}
	for user := range v.Users() {
		all = append(all, user)
	}
	for qos := range v.AllQOS() {
		all = append(all, qos)
	}
	for _, association := range v.AccountTree() {
		all = append(all, association)
	}
	return recordDigest(all)
}
