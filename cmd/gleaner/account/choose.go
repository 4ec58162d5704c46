package account

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file says which records the conditions of a request mean: conditions of
// different keys must all hold, the names of one are alternatives.

// among reports whether a value is one of those that a condition names; yes if
// there is no such condition.
func (r *Request) among(key, value string) bool {
	given := false
	for _, s := range r.Where {
		if s.Key != key {
			continue
		}
		given = true
		for _, name := range list(s.Value, false) {
			if strings.EqualFold(name, value) && (name == value || key != keyUser) {
				return true
			}
		}
	}
	return !given
}

func (r *Request) meansAccount(a *pb.Account) bool {
	return r.among(keyAccount, a.GetName()) && r.among(keyParent, a.GetParent()) &&
		r.among("Description", a.GetDescription()) && r.among("Organization", a.GetOrganization())
}

func (r *Request) meansUser(u *pb.AccountUser) bool {
	return r.among(keyUser, u.GetName()) && r.among("DefaultAccount", u.GetDefaultAccount()) && r.amongLevels(u.GetLevel())
}

func (r *Request) amongLevels(level pb.AdminLevel) bool {
	for _, s := range r.Where {
		c := new(pb.AccountChange)
		if s.Key == "AdminLevel" && (setLevel(c, s) != nil || c.GetLevel() != level) {
			return false
		}
	}
	return true
}

// meansAssociation reports the same for a user's association.
func (r *Request) meansAssociation(a *pb.Association) bool {
	return a.GetUser() != "" && r.among(keyUser, a.GetUser()) && r.among(keyAccount, a.GetAccount()) && r.among(keyPartition, a.GetPartition())
}

func (r *Request) meansQOS(q *pb.Qos) bool { return r.among(keyName, q.GetName()) }

// unknown is an error that names the first condition that matches nothing, so
// that a typing error is not taken for an empty list.
func (p *planner) unknown() error {
	known := map[string]func(name string) bool{
		keyAccount: func(name string) bool { return p.listing.account(name) != nil },
		keyUser:    func(name string) bool { return p.listing.user(name) != nil },
		keyName:    func(name string) bool { return p.listing.qos(name) != nil },
	}
	words := map[string]string{keyAccount: "account", keyUser: "user", keyName: "qos"}
	for _, s := range p.Where {
		is, checked := known[s.Key]
		if !checked {
			continue
		}
		for _, name := range list(s.Value, s.Key != keyUser) {
			if !is(name) {
				return fmt.Errorf("%s %.64q does not exist: gacctmgr show %s tells which do", words[s.Key], name, words[s.Key])
			}
		}
	}
	return nil
}

// withBelow are the accounts that a condition means, with all below them if
// withsubaccounts is asked for.
func (r *Request) withBelow(l *Listing) func(account string) bool {
	named := r.names(keyAccount)
	if len(named) == 0 {
		return func(string) bool { return true }
	}
	meant := map[string]bool{}
	for _, name := range named {
		meant[name] = true
	}
	if r.Options["withsubaccounts"] {
		for _, a := range l.Associations { // the accounts above come first
			if a.GetUser() == "" && meant[a.GetParentAccount()] {
				meant[a.GetAccount()] = true
			}
		}
	}
	return func(account string) bool { return meant[account] }
}

// onlyDefault reports whether an association is with its user's default account.
func (l *Listing) onlyDefault(a *pb.Association) bool {
	user := l.user(a.GetUser())
	return user != nil && user.GetDefaultAccount() == a.GetAccount()
}
