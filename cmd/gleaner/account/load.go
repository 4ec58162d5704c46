package account

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// MaxFileBytes bounds a flat file.
const MaxFileBytes = 16 << 20

// loader reads a flat file into changes. What must come after everything else
// is kept apart: the QOS that a QOS preempts, and what belongs to users.
type loader struct {
	listing *Listing
	plan    *Plan
	parent  string // the account that the lines are below
	known   map[string]bool
	later   []*pb.AccountChange
	counts  map[string]int
}

// Load makes the changes that a flat file asks for (sacctmgr(1), "FLAT FILE
// DUMP AND LOAD"): what is not there is added, what is there is set as the file
// says. What the file does not have stays as it is.
func (l *Listing) Load(text string) (*Plan, error) {
	in := &loader{listing: l, plan: &Plan{Nothing: " Nothing new added."}, parent: rootAccount, known: map[string]bool{}, counts: map[string]int{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if err := in.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	in.plan.Changes = append(in.plan.Changes, in.later...)
	for _, title := range []string{"QOS", "Account", "User"} {
		if count := in.counts[title]; count > 0 {
			in.plan.Lines = append(in.plan.Lines, fmt.Sprintf(" %-8s %d", title+":", count))
		}
	}
	return in.plan, nil
}

// line reads "Title - name:Key=Value:…"; # begins a comment.
func (in *loader) line(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	title, rest, found := strings.Cut(line, " - ")
	if !found {
		return fmt.Errorf("%.64q is not \"Title - name:key=value\", with Cluster, Parent, Account, User or QOS as the title", line)
	}
	fields, err := splitFields(rest)
	if err != nil {
		return err
	}
	name := fields[0]
	switch strings.ToLower(strings.TrimSpace(title)) {
	case "cluster":
		return in.record(Cluster, rootAccount, fields[1:])
	case "parent":
		in.parent = strings.ToLower(name)
		if in.listing.account(in.parent) == nil && !in.known["account "+in.parent] {
			return fmt.Errorf("account %.64q is not there yet: a line Account - %.64s must come before it", in.parent, in.parent)
		}
		return nil
	case "account":
		return in.record(Account, strings.ToLower(name), fields[1:])
	case "user":
		return in.record(User, name, fields[1:])
	case "qos":
		return in.record(QOS, strings.ToLower(name), fields[1:])
	}
	return fmt.Errorf("no such title as %.64q: use Cluster, Parent, Account, User or QOS", title)
}

// splitFields parts a line at its colons, not within quotes, which it takes off.
func splitFields(text string) ([]string, error) {
	var fields []string
	var field strings.Builder
	quote := rune(0)
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ':':
			fields = append(fields, field.String())
			field.Reset()
		default:
			field.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quotation mark %c is not closed", quote)
	}
	return append(fields, field.String()), nil
}

// record makes the changes of one line.
func (in *loader) record(entity Entity, name string, fields []string) error {
	request := &Request{Verb: Add, Entity: entity}
	partition := ""
	var coordinates []string
	for _, field := range fields {
		key, value, found := strings.Cut(field, "=")
		if !found {
			return fmt.Errorf("%.64q is not key=value", field)
		}
		switch {
		case entity == User && strings.EqualFold(key, "Coordinator"):
			coordinates = list(value, true)
		case entity == User && strings.EqualFold(key, keyPartition):
			partition = value
		case entity == Cluster && strings.EqualFold(key, "Classification"): // of Slurm's own files
		default:
			row, err := request.findKey(key, true)
			if err != nil {
				return err
			}
			if row.apply == nil {
				return fmt.Errorf("%s says which record is meant, and cannot be set on this line", row.names[0])
			}
			request.Set = append(request.Set, Setting{Key: row.names[0], Operator: Set, Value: value})
		}
	}
	p := &planner{Request: request, listing: in.listing, plan: in.plan}
	switch entity {
	case Cluster:
		return p.change(&pb.AccountChange{Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: name}, nil)
	case Account:
		in.counts["Account"]++
		return in.account(p, name)
	case QOS:
		in.counts["QOS"]++
		return in.qos(p, name)
	}
	in.counts["User"]++
	return in.user(p, name, partition, coordinates)
}

// action is to add a record that does not exist and was not on an earlier line.
func (in *loader) action(key string, there bool) pb.ChangeAction {
	if there || in.known[key] {
		return pb.ChangeAction_CHANGE_ACTION_MODIFY
	}
	in.known[key] = true
	return pb.ChangeAction_CHANGE_ACTION_ADD
}

func (in *loader) account(p *planner, name string) error {
	if name == rootAccount {
		return fmt.Errorf("the account root is always there: its settings are on the line of the cluster")
	}
	c := &pb.AccountChange{
		Action: in.action("account "+name, in.listing.account(name) != nil), Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: name,
	}
	if old := in.listing.account(name); old == nil || old.GetParent() != in.parent {
		parent := in.parent // the lines that follow may be below another one
		c.Parent = &parent
	}
	return p.change(c, nil)
}

func (in *loader) qos(p *planner, name string) error {
	c := &pb.AccountChange{Action: in.action("qos "+name, in.listing.qos(name) != nil), Record: pb.AccountRecord_ACCOUNT_RECORD_QOS, Qos: name}
	if err := p.change(c, nil); err != nil {
		return err
	}
	if c.Preempts != nil {
		in.later = append(in.later, &pb.AccountChange{
			Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_QOS, Qos: name, Preempts: c.Preempts,
		})
		c.Preempts = nil
	}
	return nil
}

func (in *loader) user(p *planner, name, partition string, coordinates []string) error {
	there := in.listing.association(in.parent, name, partition) != nil
	err := p.change(&pb.AccountChange{
		Action: in.action("user "+associationKey(in.parent, name, partition), there), Record: pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION,
		Account: in.parent, User: name, Partition: partition,
	}, ofAssociation)
	if err != nil {
		return err
	}
	before := len(in.plan.Changes)
	if err := p.changeUser(name); err != nil {
		return err
	}
	in.later = append(in.later, in.plan.Changes[before:]...)
	in.plan.Changes = in.plan.Changes[:before]
	for _, account := range coordinates {
		in.later = append(in.later, &pb.AccountChange{
			Action: pb.ChangeAction_CHANGE_ACTION_MODIFY, Record: pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT, Account: account,
			Coordinators: &pb.ListEdit{Operation: pb.ListEdit_OPERATION_ADD, Names: []string{name}},
		})
	}
	return nil
}
