package api

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// userSight is what a caller may see of accounts, users and what they use, by the
// words accounts, users and usage of PrivateData in slurm.conf(5).
type userSight struct {
	*sight
	name        string          // of the caller; "" = has none
	coordinated map[string]bool // accounts that the caller coordinates, and those below
	around      map[string]bool // accounts that the caller is in, and those above
}

func (s *Controller) sightOfUsers(from *caller, view *state.View) *userSight {
	p := &userSight{sight: s.sightOf(from, view), coordinated: map[string]bool{}, around: map[string]bool{}}
	if from.isUser {
		p.name = from.name()
	}
	if !p.hides("accounts") && !p.hides("users") && !p.hides("usage") {
		return p // and nobody asks
	}
	for _, association := range view.AccountTree() {
		if p.coordinator != "" && view.CoordinatesAccount(p.coordinator, association.Account) {
			p.coordinated[association.Account] = true
		}
		if association.User != p.name || p.name == "" {
			continue
		}
		for name := association.Account; !p.around[name]; {
			p.around[name] = true
			if account, known := view.Account(name); known && account.Parent != "" {
				name = account.Parent
			}
		}
	}
	return p
}

// seesAccount: "Prevents users from viewing any account definitions unless they
// are coordinators of them".
func (p *userSight) seesAccount(name string) bool { return !p.hides("accounts") || p.coordinated[name] }

// seesUser: "Prevents users from viewing information of any user other than
// themselves", coordinators too.
func (p *userSight) seesUser(name string) bool {
	return !p.hides("users") || name == p.name && p.name != ""
}

// seesAssociation: "users can only see associations they deal with.
// Coordinators can see associations of all users in the account".
func (p *userSight) seesAssociation(a *state.Association) bool {
	switch {
	case p.coordinated[a.Account]:
		return true
	case a.User == "":
		return !p.hides("accounts") && (!p.hides("users") || p.around[a.Account])
	}
	return !p.hides("users") || a.User == p.name && p.name != ""
}

// seesUsage: "Prevents users from viewing usage of any other user". The usage
// of an account belongs to no user.
func (p *userSight) seesUsage(account, user string) bool {
	return !p.hides("usage") || user == "" || user == p.name && p.name != "" || p.coordinated[account]
}

// seesShare is what gshare may show: an association with its usage.
func (p *userSight) seesShare(account, user, partition string) bool {
	return p.seesAssociation(&state.Association{Account: account, User: user, Partition: partition}) && p.seesUsage(account, user)
}

// account leaves out the coordinators, where users are hidden.
func (p *userSight) account(message *pb.Account) *pb.Account {
	if p.hides("users") && !p.coordinated[message.GetName()] {
		message.Coordinators = slices.DeleteFunc(slices.Clone(message.GetCoordinators()), func(name string) bool { return name != p.name })
	}
	return message
}

// within leaves the use by others out of the use of a QOS.
func (p *userSight) within(message *pb.QosUse) *pb.QosUse {
	if !p.hides("usage") && !p.hides("users") && !p.hides("accounts") {
		return message
	}
	message.Within = slices.DeleteFunc(message.GetWithin(), func(use *pb.UseWithin) bool {
		if use.GetAccount() != "" {
			return !p.seesAccount(use.GetAccount())
		}
		return !(p.isUser && use.GetUid() == p.uid) && (p.hides("usage") || p.hides("users"))
	})
	return message
}
