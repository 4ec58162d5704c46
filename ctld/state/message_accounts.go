package state

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file converts between the records of accounts and the API's messages,
// both ways.

// preemptWords are the modes as the policy and gacctmgr write them.
var preemptWords = [...]string{
	sched.PreemptUnset: "", sched.PreemptOff: "off", sched.PreemptCancel: "cancel", sched.PreemptRequeue: "requeue",
	sched.PreemptSuspend: "suspend", sched.PreemptCheckpoint: "checkpoint",
}

// flagWords are the flags of QOS by their names in sacctmgr(1).
var flagWords = []struct {
	flag QOSFlags
	word string
}{{FlagDenyOnLimit, "DenyOnLimit"}, {FlagNoDecay, "NoDecay"}, {FlagOverPartQOS, "OverPartQOS"}}

// AccountMessage is an account as clients see it.
func AccountMessage(a *Account) *pb.Account {
	return &pb.Account{Name: a.Name, Parent: a.Parent, Description: a.Description, Organization: a.Organization, Coordinators: a.Coordinators}
}

// UserMessage is a user as clients see them.
func UserMessage(u *User) *pb.AccountUser {
	return &pb.AccountUser{Name: u.Name, DefaultAccount: u.DefaultAccount, Level: pb.AdminLevel(u.Level)}
}

// AssociationMessage is an association, at its depth in the tree.
func (a *accounting) AssociationMessage(association *Association, depth int) *pb.Association {
	message := &pb.Association{
		Id: association.ID, Account: association.Account, User: association.User, Partition: association.Partition,
		Shares: association.Shares, ShareParent: association.ShareParent, Priority: association.Priority,
		Limits: limitMessages(&association.Limits), Qos: association.QOS, DefaultQos: association.DefaultQOS,
		AllowedQos: a.AllowedQOS(association), EffectiveDefaultQos: a.DefaultQOS(association), Depth: uint32(depth),
	}
	if parent := a.parentOf(association); parent != nil {
		message.ParentAccount = parent.Account
	}
	return message
}

// QOSMessage is a QOS as clients see it.
func QOSMessage(q *QOS) *pb.Qos {
	message := &pb.Qos{
		Name: q.Name, Description: q.Description, Priority: q.Priority, Preempts: q.Preempts,
		PreemptMode: preemptWords[q.PreemptMode], GraceTimeS: q.GraceTimeS, ExemptTimeS: q.ExemptTimeS,
		UsageFactorPpm: q.UsageFactorPPM, Limits: limitMessages(&q.Limits),
	}
	for _, row := range flagWords {
		if q.Flags()&row.flag != 0 {
			message.Flags = append(message.Flags, row.word)
		}
	}
	return message
}

func limitMessages(limits *Limits) []*pb.Limit {
	var messages []*pb.Limit
	for kind := LimitKind(1); kind <= lastLimit; kind++ {
		row := kind.row()
		if row.amounts == nil {
			if value := *row.count(limits); value != nil {
				messages = append(messages, &pb.Limit{Kind: pb.LimitKind(kind), Value: uint64(*value)})
			}
			continue
		}
		for _, amount := range *row.amounts(limits) {
			messages = append(messages, &pb.Limit{Kind: pb.LimitKind(kind), Tres: amount.Name, Value: amount.Count})
		}
	}
	return messages
}

// ChangesFromMessage makes the command of a request. The error is for the
// user.
func ChangesFromMessage(messages []*pb.AccountChange) (ChangeAccounts, error) {
	var c ChangeAccounts
	if len(messages) > bounds.MaxAccountChanges {
		return c, refuse(Exhausted, "%d changes in one request are too many: at most %d", len(messages), bounds.MaxAccountChanges)
	}
	for _, message := range messages {
		change, refused := changeFromMessage(message)
		if refused != nil {
			return c, refused
		}
		c.Changes = append(c.Changes, change)
	}
	return c, nil
}

func changeFromMessage(m *pb.AccountChange) (AccountChange, *Refusal) {
	c := AccountChange{
		Action: ChangeAction(min(uint32(m.GetAction()), 255)), Record: RecordKind(min(uint32(m.GetRecord()), 255)),
		Account: m.GetAccount(), User: m.GetUser(), Partition: m.GetPartition(), QOS: m.GetQos(),
		Coordinators: editFromMessage(m.GetCoordinators()), ShareParent: m.GetShareParent(),
		AllowedQOS: editFromMessage(m.GetAllowedQos()), ResetUsage: m.GetResetUsage(), Preempts: editFromMessage(m.GetPreempts()),
	}
	if m == nil {
		return c, nil // refused when it is applied: it says nothing
	}
	if m.Level != nil {
		level := AdminLevel(min(uint32(m.GetLevel()), 255))
		c.Level = &level
	}
	c.Parent, c.Description, c.Organization = m.Parent, m.Description, m.Organization
	c.DefaultAccount, c.DefaultQOS = m.DefaultAccount, m.DefaultQos
	c.Shares, c.Priority, c.GraceTimeS = m.Shares, m.Priority, m.GraceTimeS
	c.ExemptTimeS, c.UsageFactorPPM = m.ExemptTimeS, m.UsageFactorPpm
	for _, limit := range m.GetLimits() {
		c.Limits = append(c.Limits, LimitChange{
			Limit: LimitKind(min(uint32(limit.GetKind()), 255)), TRES: limit.GetTres(), Value: limit.GetValue(), Clear: limit.GetClear(),
		})
	}
	if m.PreemptMode != nil {
		mode, refused := preemptModeOf(m.GetPreemptMode())
		if refused != nil {
			return c, refused
		}
		c.PreemptMode = &mode
	}
	var refused *Refusal
	if c.FlagsOn, refused = flagsOf(m.GetFlagsOn()); refused == nil {
		c.FlagsOff, refused = flagsOf(m.GetFlagsOff())
	}
	return c, refused
}

func editFromMessage(m *pb.ListEdit) *ListEdit {
	if m == nil {
		return nil
	}
	return &ListEdit{Operation: ListOperation(min(uint32(m.GetOperation()), 255)), Names: m.GetNames()}
}

func preemptModeOf(word string) (policy.PreemptMode, *Refusal) {
	for mode, known := range preemptWords {
		if strings.EqualFold(word, known) {
			return policy.PreemptMode(mode), nil
		}
	}
	return 0, refuse(Invalid, "no such preempt mode %s: use cluster, off, cancel, requeue or checkpoint", bounds.Quoted(word))
}

func flagsOf(words []string) (QOSFlags, *Refusal) {
	var flags QOSFlags
	for _, word := range words {
		known := QOSFlags(0)
		for _, row := range flagWords {
			if strings.EqualFold(word, row.word) {
				known = row.flag
			}
		}
		if known == 0 {
			return 0, refuse(Invalid, "QOS flag %s is not supported: there are DenyOnLimit, NoDecay and OverPartQOS", bounds.Quoted(word))
		}
		flags |= known
	}
	return flags, nil
}
