package account

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Plan is what a request comes to.
type Plan struct {
	Changes []*pb.AccountChange
	// Lines tell what will be done, in sacctmgr's words; Skipped what will
	// not, because it is so already.
	Lines   []string
	Skipped []string
	// Nothing is what to say when there are no changes.
	Nothing string
}

// Plan makes the changes that a request asks for, of what there is.
func (r *Request) Plan(l *Listing) (*Plan, error) {
	for _, name := range r.names(keyCluster) {
		if !strings.EqualFold(name, l.Cluster) {
			return nil, fmt.Errorf("this is cluster %s, and not %s: leave cluster= out, or name another controller with --controller", l.Cluster, name)
		}
	}
	p := &planner{Request: r, listing: l, plan: &Plan{}}
	var err error
	switch {
	case r.Entity == Coordinator:
		err = p.coordinators()
	case r.Verb == Add && r.Entity == User:
		err = p.addUsers()
	case r.Verb == Add:
		err = p.addNamed()
	case r.Verb == Modify:
		err = p.modify()
	default:
		err = p.remove()
	}
	return p.plan, err
}

type planner struct {
	*Request
	listing *Listing
	plan    *Plan
}

func (p *planner) say(format string, arguments ...any) {
	p.plan.Lines = append(p.plan.Lines, strings.TrimRight(fmt.Sprintf(format, arguments...), " "))
}

func (p *planner) skip(format string, arguments ...any) {
	p.plan.Skipped = append(p.plan.Skipped, fmt.Sprintf(format, arguments...))
}

// change adds one, with those of the settings that are wanted.
func (p *planner) change(c *pb.AccountChange, wanted func(key string) bool) error {
	for _, s := range p.Set {
		if wanted == nil || wanted(s.Key) {
			if err := keyNamed(s.Key).apply(c, s); err != nil {
				return err
			}
		}
	}
	p.plan.Changes = append(p.plan.Changes, c)
	return nil
}

// ofUser reports whether a setting is the user's and not the association's.
func ofUser(key string) bool { return key == "AdminLevel" || key == "DefaultAccount" }

func ofAssociation(key string) bool { return !ofUser(key) }

// addNamed adds accounts or QOS.
func (p *planner) addNamed() error {
	p.plan.Nothing = " Nothing new added."
	what, there := "Account(s)", func(name string) bool { return p.listing.account(name) != nil }
	if p.Entity == QOS {
		what, there = "QOS(s)", func(name string) bool { return p.listing.qos(name) != nil }
	}
	names := p.names(p.nameKey())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if there(name) {
			p.skip(" This %s '%s' already exists.  Not adding.", p.Entity, name)
			continue
		}
		c := &pb.AccountChange{Action: pb.ChangeAction_CHANGE_ACTION_ADD, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: name}
		if p.Entity == QOS {
			c = &pb.AccountChange{Action: pb.ChangeAction_CHANGE_ACTION_ADD, Record: pb.AccountRecord_ACCOUNT_RECORD_QOS, Qos: name}
		}
		if err := p.change(c, nil); err != nil {
			return err
		}
		if len(p.plan.Changes) == 1 {
			p.say(" Adding %s", what)
		}
		p.say("  %s", name)
	}
	p.settings()
	return nil
}

// settings tells what is set.
func (p *planner) settings() {
	if len(p.plan.Changes) == 0 || len(p.Set) == 0 {
		return
	}
	p.say(" Settings")
	for _, s := range p.Set {
		p.say("  %-13s %s %s", strings.TrimPrefix(s.Key, "QOS "), map[Operator]string{Set: "=", Plus: "+=", Minus: "-="}[s.Operator], s.Value)
	}
}

// addUsers puts users into accounts; an unknown user is created.
func (p *planner) addUsers() error {
	p.plan.Nothing = " Nothing new added."
	accounts, partitions := p.names(keyAccount), p.names(keyPartition)
	for _, s := range p.Set {
		if s.Key == "DefaultAccount" && len(accounts) == 0 {
			accounts = []string{strings.ToLower(s.Value)}
		}
	}
	if len(partitions) == 0 {
		partitions = []string{""}
	}
	users := p.names(keyUser)
	slices.Sort(users)
	users = slices.Compact(users)
	var fresh, lines []string
	for _, user := range users {
		added := len(p.plan.Changes)
		for _, account := range accounts {
			for _, partition := range partitions {
				if p.listing.association(account, user, partition) != nil {
					p.skip(" The association of user '%s' with account '%s' already exists.  Not adding.", user, account)
					continue
				}
				c := &pb.AccountChange{
					Action: pb.ChangeAction_CHANGE_ACTION_ADD, Record: pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION,
					Account: account, User: user, Partition: partition,
				}
				if err := p.change(c, ofAssociation); err != nil {
					return err
				}
				lines = append(lines, p.associationLine(account, user, partition))
			}
		}
		if p.listing.user(user) == nil && len(p.plan.Changes) > added {
			fresh = append(fresh, user)
		}
		if err := p.changeUser(user); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		p.say(" Adding User(s)")
		for _, user := range fresh {
			p.say("  %s", user)
		}
	}
	if len(lines) > 0 {
		p.say(" Associations =")
		p.plan.Lines = append(p.plan.Lines, lines...)
	}
	p.settings()
	return nil
}

// changeUser sets what belongs to the user and not to an association.
func (p *planner) changeUser(user string) error {
	if !slices.ContainsFunc(p.Set, func(s Setting) bool { return ofUser(s.Key) }) {
		return nil
	}
	return p.change(&pb.AccountChange{
		Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_USER, User: user,
	}, ofUser)
}

func (p *planner) associationLine(account, user, partition string) string {
	line := fmt.Sprintf("  C = %-10s A = %-20s", p.listing.Cluster, account)
	if user != "" {
		line += fmt.Sprintf(" U = %-9s", user)
	}
	if partition != "" {
		line += fmt.Sprintf(" P = %s", partition)
	}
	return strings.TrimRight(line, " ")
}

func (p *planner) coordinators() error {
	p.plan.Nothing = " Nothing modified"
	operation, verb := pb.ListEdit_OPERATION_ADD, "Adding Coordinator User(s)"
	if p.Verb == Delete {
		operation, verb = pb.ListEdit_OPERATION_REMOVE, "Removing Coordinators(s)"
	}
	users := p.names(keyUser)
	p.say(" %s", verb)
	for _, user := range users {
		p.say("  %s", user)
	}
	p.say(" From Account(s)")
	if p.Verb == Add {
		p.plan.Lines[len(p.plan.Lines)-1] = " To Account(s)"
	}
	for _, account := range p.names(keyAccount) {
		p.say("  %s", account)
		p.plan.Changes = append(p.plan.Changes, &pb.AccountChange{
			Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: account,
			Coordinators: &pb.ListEdit{Operation: operation, Names: users},
		})
	}
	return nil
}

func (p *planner) modify() error {
	p.plan.Nothing = " Nothing modified"
	const modify = pb.ChangeAction_CHANGE_ACTION_MODIFY
	switch p.Entity {
	case Cluster:
		p.say(" Modified cluster defaults for associations...")
		p.say("  %s", p.listing.Cluster)
		return cmp.Or(p.change(&pb.AccountChange{Action: modify, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: rootAccount}, nil), p.told())
	case QOS:
		p.say(" Modified qos...")
		for _, qos := range p.listing.QOS {
			if p.meansQOS(qos) {
				p.say("  %s", qos.GetName())
				if err := p.change(&pb.AccountChange{Action: modify, Record: pb.AccountRecord_ACCOUNT_RECORD_QOS, Qos: qos.GetName()}, nil); err != nil {
					return err
				}
			}
		}
	case Account:
		p.say(" Modified account associations...")
		for _, account := range p.listing.Accounts {
			if p.meansAccount(account) {
				p.plan.Lines = append(p.plan.Lines, p.associationLine(account.GetName(), "", ""))
				if err := p.change(&pb.AccountChange{Action: modify, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: account.GetName()}, nil); err != nil {
					return err
				}
			}
		}
	default:
		return cmp.Or(p.modifyUsers(), p.told())
	}
	return p.told()
}

const rootAccount = "root"

// told says what is set, unless nothing is meant.
func (p *planner) told() error {
	p.settings()
	return p.unknown()
}

func (p *planner) modifyUsers() error {
	if slices.ContainsFunc(p.Set, func(s Setting) bool { return ofUser(s.Key) }) {
		p.say(" Modified users...")
		for _, user := range p.listing.Users {
			if p.meansUser(user) && p.hasMeant(user) {
				p.say("  %s", user.GetName())
				if err := p.changeUser(user.GetName()); err != nil {
					return err
				}
			}
		}
	}
	if !slices.ContainsFunc(p.Set, func(s Setting) bool { return ofAssociation(s.Key) }) {
		return nil
	}
	p.say(" Modified user associations...")
	for _, a := range p.listing.Associations {
		if p.meansAssociation(a) {
			p.plan.Lines = append(p.plan.Lines, p.associationLine(a.GetAccount(), a.GetUser(), a.GetPartition()))
			err := p.change(&pb.AccountChange{
				Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION,
				Account: a.GetAccount(), User: a.GetUser(), Partition: a.GetPartition(),
			}, ofAssociation)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// hasMeant reports whether a user has an association that is meant.
func (p *planner) hasMeant(user *pb.AccountUser) bool {
	if len(p.names(keyAccount)) == 0 && len(p.names(keyPartition)) == 0 {
		return true
	}
	return slices.ContainsFunc(p.listing.look().ofUser[user.GetName()], p.meansAssociation)
}

func (p *planner) remove() error {
	p.plan.Nothing = " Nothing deleted"
	const remove = pb.ChangeAction_CHANGE_ACTION_DELETE
	switch {
	case p.Entity == QOS:
		p.say(" Deleting QOS(s)...")
		for _, qos := range p.listing.QOS {
			if p.meansQOS(qos) {
				p.say("  %s", qos.GetName())
				p.plan.Changes = append(p.plan.Changes, &pb.AccountChange{Action: remove, Record: pb.AccountRecord_ACCOUNT_RECORD_QOS, Qos: qos.GetName()})
			}
		}
	case p.Entity == Account:
		p.say(" Deleting accounts...")
		// From the bottom up: what is below goes before what is above.
		for _, a := range slices.Backward(p.listing.Associations) {
			account := p.listing.account(a.GetAccount())
			if a.GetUser() == "" && account != nil && p.meansAccount(account) {
				p.say("  %s", account.GetName())
				p.plan.Changes = append(p.plan.Changes, &pb.AccountChange{Action: remove, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: account.GetName()})
			}
		}
	case len(p.names(keyAccount)) == 0 && len(p.names(keyPartition)) == 0:
		p.say(" Deleting users...")
		for _, user := range p.listing.Users {
			if p.meansUser(user) {
				p.say("  %s", user.GetName())
				p.plan.Changes = append(p.plan.Changes, &pb.AccountChange{Action: remove, Record: pb.AccountRecord_ACCOUNT_RECORD_USER, User: user.GetName()})
			}
		}
	default:
		p.say(" Deleting user associations...")
		for _, a := range p.listing.Associations {
			if p.meansAssociation(a) {
				p.plan.Lines = append(p.plan.Lines, p.associationLine(a.GetAccount(), a.GetUser(), a.GetPartition()))
				p.plan.Changes = append(p.plan.Changes, &pb.AccountChange{
					Action: remove, Record: pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION,
					Account: a.GetAccount(), User: a.GetUser(), Partition: a.GetPartition(),
				})
			}
		}
	}
	return p.unknown()
}
