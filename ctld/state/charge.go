package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// This file decides what a job is charged to and under which QOS it runs
// (sbatch(1), --account and --qos; slurm.conf(5), AccountingStorageEnforce).

// charge returns the number of the association that a job is charged to, 0 for
// none, and fills in its account and QOS. The partitions are filled in already.
func (t *tables) charge(asked *Spec, owner *Owner) (uint32, *Refusal) {
	association := t.associationFor(asked, owner)
	if association == nil && t.policy.Accounting.EnforcesAssociations() {
		return 0, t.refuseAccount(asked, owner)
	}
	id := uint32(0)
	if association != nil {
		id, asked.Account = association.ID, association.Account
	}
	if asked.QOS == "" {
		asked.QOS = t.DefaultQOS(association)
	} else if refused := t.checkQOS(asked.QOS, association, owner); refused != nil {
		return 0, refused
	}
	return id, t.checkPartitionsAllow(asked)
}

// associationFor finds the user's association with the account that was
// requested, or with the default account: the association for the first
// partition before that for all. nil when there is none. Users of other uid
// domains have none.
func (t *tables) associationFor(asked *Spec, owner *Owner) *Association {
	if owner.UIDDomain != "" {
		return nil
	}
	account := asked.Account
	if user, known := t.User(owner.User); known {
		account = cmp.Or(account, user.DefaultAccount)
	}
	for _, partition := range []string{asked.Partitions[0], ""} {
		if association, found := t.AssociationOf(account, owner.User, partition); found && owner.User != "" {
			return association
		}
	}
	if owner.UID == 0 && cmp.Or(account, policy.RootAccount) == policy.RootAccount && t.HasAccounts() {
		association, _ := t.Association(rootAssociation)
		return association
	}
	return nil
}

// IsCharged reports whether a job would be charged to any association. Its
// partitions are filled in already.
func (t *tables) IsCharged(asked *Spec, owner *Owner) bool {
	return t.associationFor(asked, owner) != nil
}

const textInvalidAccount = "Invalid account or account/partition combination specified"

// refuseAccount says what a user may be charged to instead.
func (t *tables) refuseAccount(asked *Spec, owner *Owner) *Refusal {
	var accounts []string
	elsewhere := false // with this account, in other partitions
	for association := range t.AssociationsOf(owner.User) {
		elsewhere = elsewhere || association.Account == asked.Account && association.Partition != ""
		if !slices.Contains(accounts, association.Account) {
			accounts = append(accounts, association.Account)
		}
	}
	who, account := quotedUnlessValid(owner.User), quotedUnlessValid(cmp.Or(asked.Account, "NAME"))
	switch {
	case elsewhere:
		return refuse(Invalid, "%s\nuser %s has account %s in other partitions only: see gacctmgr show association user=%s, and name one with --partition", textInvalidAccount, who, account, who)
	case len(accounts) == 0:
		return refuse(Invalid, "%s\nuser %s has no account: an administrator or the account's coordinator gives one with gacctmgr add user %s account=%s", textInvalidAccount, who, who, account)
	case asked.Account == "":
		return refuse(Invalid, "%s\nuser %s has no default account for this partition: name one of %s with --account", textInvalidAccount, who, listed(accounts))
	}
	return refuse(Invalid, "%s\nuser %s has no association with account %s: name one of %s with --account", textInvalidAccount, who, account, listed(accounts))
}

// AllowedQOS are the QOS that an association may use, ascending: its own list,
// or that of the nearest account above that has one; normal when none has.
func (a *accounting) AllowedQOS(association *Association) []string {
	for range bounds.MaxAccountDepth + 2 {
		if association == nil {
			break
		}
		if len(association.QOS) > 0 {
			return association.QOS
		}
		association = a.parentOf(association)
	}
	return []string{NormalQOS}
}

// DefaultQOS is the QOS of a job that requests none: that of the association or
// of the nearest above it, else the only one it may use, else normal. The
// association may be nil.
func (a *accounting) DefaultQOS(association *Association) string {
	if association == nil {
		association, _ = a.Association(rootAssociation)
		return cmp.Or(association.DefaultQOS, NormalQOS)
	}
	for at := association; at != nil; at = a.parentOf(at) {
		if at.DefaultQOS != "" && slices.Contains(a.AllowedQOS(association), at.DefaultQOS) {
			return at.DefaultQOS
		}
	}
	if allowed := a.AllowedQOS(association); len(allowed) == 1 {
		return allowed[0]
	}
	return NormalQOS
}

const textInvalidQOS = "Invalid qos specification"

// checkQOS refuses, where QOS are enforced, a QOS that is unknown or that the
// association may not use. Jobs of root may use all.
func (t *tables) checkQOS(name string, association *Association, owner *Owner) *Refusal {
	if !t.policy.Accounting.EnforceQOS {
		return nil
	}
	if _, known := t.QOS(name); !known {
		return refuse(Invalid, "%s\nthere is no QOS %s: name one of %s with --qos", textInvalidQOS, bounds.Quoted(name), listed(t.AllowedQOS(association)))
	}
	if allowed := t.AllowedQOS(association); !slices.Contains(allowed, name) && owner.UID != 0 {
		return refuse(Invalid, "%s\n%s may not use QOS %s: name one of %s with --qos", textInvalidQOS,
			describeAssociation(association.Account, association.User, association.Partition), name, listed(allowed))
	}
	return nil
}

// checkPartitionsAllow refuses a partition that is for other accounts or QOS.
func (t *tables) checkPartitionsAllow(asked *Spec) *Refusal {
	for _, name := range asked.Partitions {
		partition, _ := t.policy.Partition(name)
		if len(partition.AllowAccounts) > 0 && !slices.Contains(partition.AllowAccounts, asked.Account) {
			return refuse(Invalid, "%s\npartition %s is for the accounts %s: name one with --account", textInvalidAccount, name, strings.Join(partition.AllowAccounts, ", "))
		}
		if len(partition.AllowQOS) > 0 && !slices.Contains(partition.AllowQOS, asked.QOS) {
			return refuse(Invalid, "%s\npartition %s is for the QOS %s: name one with --qos", textInvalidQOS, name, strings.Join(partition.AllowQOS, ", "))
		}
	}
	return nil
}

// UnknownNames refuses a policy that gives a partition the limits of an unknown
// QOS, or nodes to an unknown account. The accounts and QOS that a partition allows
// may be created later.
func (a *accounting) UnknownNames(policy *policy.Policy) *Refusal {
	for i := range policy.Partitions {
		p := &policy.Partitions[i]
		if _, known := a.QOS(p.QOS); p.QOS != "" && !known {
			return refuse(Invalid, "partition %s: QOS %s does not exist: add it first with gacctmgr add qos %s, or take another of %s", p.Name, bounds.Quoted(p.QOS), p.QOS, a.qosNames())
		}
	}
	return a.unknownOwner(policy)
}
