package api

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// This file says who may change accounts (sacctmgr(1), AdminLevel and
// "coordinator"): administrators everything; operators everything except who is
// an administrator; coordinators of an account what is below it; everybody
// their own default account.

// levelOf is what a caller may do by accounting's own record.
func (s *Controller) levelOf(from *caller, view *state.View) state.AdminLevel {
	if s.isAdministrator(from) {
		return state.Administrator
	}
	if !from.isUser || from.owner != nil {
		return state.NoAdmin
	}
	if user, known := view.User(from.name()); known && from.name() != "" {
		return user.Level
	}
	return state.NoAdmin
}

// seesAll reports whether private_data hides nothing from the caller.
func (s *Controller) seesAll(from *caller) bool {
	return s.levelOf(from, s.cluster.View()) >= state.Operator
}

// coordinator is the caller's name if they coordinate accounts, whose jobs they
// may then act on as their owners may; "" = they do not.
func (s *Controller) coordinator(from *caller) string {
	if !from.isUser || from.owner != nil || !s.cluster.View().HasAccounts() {
		return ""
	}
	if name := from.name(); name != "" && s.cluster.View().IsCoordinator(name) {
		return name
	}
	return ""
}

// coordinates reports whether the caller coordinates what a job is charged to.
func (s *Controller) coordinates(from *caller, job *state.Job) bool {
	return from.isUser && from.owner == nil && s.cluster.View().Coordinates(from.name(), job)
}

// mayChange refuses a change that the caller may not make.
func (s *Controller) mayChange(from *caller, view *state.View, command *state.ChangeAccounts) error {
	level := s.levelOf(from, view)
	if level == state.Administrator {
		return nil
	}
	denied := func(format string, arguments ...any) error {
		return status.Errorf(codes.PermissionDenied, "Access/permission denied: "+format, arguments...)
	}
	if from.owner != nil {
		return denied("accounts cannot be changed from inside a job")
	}
	realm := realm{view: view, name: from.name(), made: map[string]string{}}
	for i := range command.Changes {
		c := &command.Changes[i]
		if level == state.Operator {
			if touchesAdministrator(view, c) {
				return denied("operators cannot make, change or delete administrators: ask an administrator")
			}
			continue
		}
		if why := realm.refuses(c); why != "" {
			return denied("%s", plainly(why))
		}
	}
	return nil
}

// touchesAdministrator reports whether a change is about an administrator.
func touchesAdministrator(view *state.View, c *state.AccountChange) bool {
	if c.Level != nil && *c.Level > state.Operator {
		return true
	}
	user, known := view.User(c.User)
	return known && user.Level == state.Administrator && c.Record == state.UserRecord
}

// realm is what a coordinator may change: all below the accounts that they
// coordinate.
type realm struct {
	view *state.View
	name string
	made map[string]string // accounts that the command adds itself, with their parents
}

// has reports whether an account is one that the user coordinates, or below one.
func (r *realm) has(account string) bool {
	for range bounds.MaxAccountDepth + 1 {
		record, known := r.view.Account(account)
		if !known {
			parent, made := r.made[account]
			if !made {
				return false
			}
			account = parent
			continue
		}
		if slices.Contains(record.Coordinators, r.name) && r.name != "" {
			return true
		}
		account = record.Parent
	}
	return false
}

// refuses says why the user may not make a change, "" when they may.
func (r *realm) refuses(c *state.AccountChange) string {
	if c.ResetUsage {
		return "only administrators and operators reset usage"
	}
	switch c.Record {
	case state.UserRecord:
		if c.Action == state.ModifyRecord && c.User == r.name && c.Level == nil {
			return "" // users may choose their own default account
		}
		return "only administrators and operators change users; add user NAME account=ACCOUNT and delete user NAME account=ACCOUNT are a coordinator's too"
	case state.AccountRecord:
		return r.refusesAccount(c)
	case state.AssociationRecord:
		if !r.has(c.Account) {
			return "you do not coordinate account " + c.Account + ": ask a coordinator of it, see gacctmgr show account withcoord"
		}
		return r.refusesQOS(c, c.Account)
	}
	return "only administrators and operators change QOS"
}

func (r *realm) refusesAccount(c *state.AccountChange) string {
	parent := ""
	if record, known := r.view.Account(c.Account); known {
		parent = record.Parent
	}
	if c.Action == state.AddRecord {
		parent = policy.RootAccount
		if c.Parent != nil {
			parent = *c.Parent
		}
		r.made[c.Account] = parent
	}
	switch {
	case !r.has(parent):
		// Those above decide about the account itself, its share and its
		// EnforcesLimits.
		return "account " + c.Account + " is not below one that you coordinate: ask an administrator"
	case c.Parent != nil && !r.has(*c.Parent):
		return "account " + *c.Parent + " is not one that you coordinate: choose a parent that is"
	}
	return r.refusesQOS(c, parent)
}

// refusesQOS keeps a coordinator from granting a QOS that the account above
// lacks.
func (r *realm) refusesQOS(c *state.AccountChange, above string) string {
	if c.AllowedQOS == nil || c.AllowedQOS.Operation == state.RemoveFromList {
		return ""
	}
	association, known := r.view.AssociationOf(above, "", "")
	for range r.made { // up to one that exists already
		if !known {
			above = r.made[above]
			association, known = r.view.AssociationOf(above, "", "")
		}
	}
	if !known {
		return "account " + above + " does not exist"
	}
	allowed := r.view.AllowedQOS(association)
	for _, name := range c.AllowedQOS.Names {
		if !slices.Contains(allowed, name) {
			return "account " + above + " may not use QOS " + name + ", so that you cannot give it to others: ask an administrator"
		}
	}
	return ""
}
