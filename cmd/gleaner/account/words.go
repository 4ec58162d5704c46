// Package account reads the words of gacctmgr, which are those of sacctmgr(1),
// and writes its tables: words in, a Request out; a Request and a Listing in,
// the changes to ask for and the messages about them out.
//
// It promises that a word that is not understood is an error that says what to
// type instead, that nothing is guessed, and that no input makes it fail
// otherwise. It does no I/O and reads no clock. Cost: words times the keys of
// the table, and for a plan the words times the records of the listing.
package account

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// Bounds of what is typed, or read from a file.
const (
	MaxWords     = 10_000
	MaxWordBytes = 64 << 10
)

// Verb is what is to be done.
type Verb int

// Verbs.
const (
	Show Verb = iota + 1
	Add
	Modify
	Delete
)

var verbs = []struct {
	verb  Verb
	names []string
}{
	{Show, []string{"show", "list"}},
	{Add, []string{"add", "create"}},
	{Modify, []string{"modify", "update"}},
	{Delete, []string{"delete", "remove"}},
}

// Entity is what it is done to.
type Entity uint8

// Entities.
const (
	Account Entity = 1 << iota
	User
	Association
	QOS
	TRES
	Cluster
	Coordinator
	Event
)

var entities = []struct {
	entity Entity
	names  []string
}{
	{Account, []string{"account", "accounts", "acct"}},
	{User, []string{"user", "users"}},
	{Association, []string{"association", "associations"}},
	{QOS, []string{"qos"}},
	{TRES, []string{"tres"}},
	{Cluster, []string{"cluster", "clusters"}},
	{Coordinator, []string{"coordinator", "coordinators"}},
	{Event, []string{"event", "events"}},
}

// laterEntities are those of sacctmgr that are refused by name.
var laterEntities = map[string]string{
	"configuration": "gcontrol show config shows it", "federation": "this cluster is the only one",
	"job": "a job that is over cannot be changed", "problem": "users without accounts are not kept", "reservation": "use gcontrol show reservation",
	"resource": "licenses are in cluster.toml", "runawayjobs": "jobs cannot be left behind: gcontrol status shows what is wrong", "stats": "gctld has a metrics page",
	"transaction": "gctld's log has what was changed", "wckey": "leave out the wckey", "wckeys": "leave out the wckey",
}

// Operator is between a key and its value.
type Operator int

// Operators: =, += and -=.
const (
	Set Operator = iota + 1
	Plus
	Minus
)

// Setting is one Key=value; the key is as in the table, not as typed.
type Setting struct {
	Key      string
	Operator Operator
	Value    string
}

// Request is what was typed.
type Request struct {
	Verb   Verb
	Entity Entity
	// Where are the conditions, which are also the names of what is added.
	Where []Setting
	// Set is what is to be so.
	Set []Setting
	// Options are words without a value: withassoc, tree.
	Options map[string]bool
}

// options are the words of show without a value (sacctmgr(1)).
var options = []string{
	"withassoc", "withcoordinator", "withdeleted", "withsubaccounts", "wolimits", "wopinfo", "woplimits",
	"onlydefaults", "tree", "withfed", "withrawqoslevel", allTime,
}

// laterOptions are refused by name.
var laterOptions = map[string]string{
	"withdeleted": "what was deleted is not kept", "withfed": "this cluster is the only one", "withrawqoslevel": "lists of QOS are kept whole: see the field QOS",
}

// Parse reads the words after the program's options.
func Parse(words []string) (*Request, error) {
	if len(words) > MaxWords {
		return nil, fmt.Errorf("%d words are too many: at most %d", len(words), MaxWords)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("no command given: type add, modify, delete or show, and what")
	}
	verb, err := findVerb(words[0])
	if err != nil {
		return nil, err
	}
	if len(words) == 1 {
		return nil, fmt.Errorf("%s what? type %s and account, user, association, qos, tres, cluster, coordinator or event", words[0], words[0])
	}
	r := &Request{Verb: verb, Options: map[string]bool{}}
	if r.Entity, err = findEntity(words[1], r); err != nil {
		return nil, err
	}
	if err := r.readWords(words[2:]); err != nil {
		return nil, err
	}
	return r, r.check()
}

func findVerb(word string) (Verb, error) {
	var names []string
	var found []Verb
	for _, row := range verbs {
		for _, name := range row.names {
			names = append(names, name)
			if strings.EqualFold(name, word) {
				return row.verb, nil
			}
			if word != "" && strings.HasPrefix(name, strings.ToLower(word)) && (len(found) == 0 || found[len(found)-1] != row.verb) {
				found = append(found, row.verb)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return 0, unknownWord("command", word, names)
}

// findEntity finds what a command is about. "associations" with -s in sacctmgr
// is an option of its own.
func findEntity(word string, r *Request) (Entity, error) {
	var names []string
	var found []Entity
	for _, row := range entities {
		for _, name := range row.names {
			names = append(names, name)
			if strings.EqualFold(name, word) {
				return row.entity, r.allows(row.entity)
			}
		}
		if word != "" && strings.HasPrefix(row.names[0], strings.ToLower(word)) {
			found = append(found, row.entity)
		}
	}
	if len(found) == 1 {
		return found[0], r.allows(found[0])
	}
	if remedy, known := laterEntities[strings.ToLower(word)]; known {
		return 0, fmt.Errorf("%s is not supported: %s", strings.ToLower(word), remedy)
	}
	if len(found) > 1 {
		// As Slurm reads them: a is account, c is cluster.
		return found[0], r.allows(found[0])
	}
	return 0, unknownWord("entity", word, names)
}

// allows refuses what a verb is not for.
func (r *Request) allows(entity Entity) error {
	switch {
	case r.Verb == Show:
		return nil
	case entity == Association:
		return fmt.Errorf("associations are changed by way of their users and accounts: type modify user NAME account=ACCOUNT set …")
	case entity == TRES:
		return fmt.Errorf("TRES are what nodes have and limits name: they are shown only")
	case entity == Event:
		return fmt.Errorf("events happen to nodes: they are shown only; gcontrol update node changes nodes")
	case entity == Cluster && r.Verb != Modify:
		return fmt.Errorf("this cluster is the only one: it can be shown, and modified as the root account is")
	case entity == Coordinator && r.Verb == Modify:
		return fmt.Errorf("coordinators are added and deleted: type add coordinator account=ACCOUNT names=USER")
	}
	return nil
}

func unknownWord(what, word string, names []string) error {
	if meant := similar.Nearest(word, names); meant != "" {
		return fmt.Errorf("invalid %s: %.64q; did you mean %s?", what, word, meant)
	}
	return fmt.Errorf("invalid %s: %.64q; there are %s", what, word, strings.Join(names, ", "))
}

// readWords reads conditions, and after "set" what is to be so.
func (r *Request) readWords(words []string) error {
	setting := r.Verb == Add // everything that is no name is set
	for _, word := range words {
		if len(word) > MaxWordBytes {
			return fmt.Errorf("a word of %d bytes is too long: at most %d", len(word), MaxWordBytes)
		}
		switch lower := strings.ToLower(word); {
		case lower == "where":
			setting = false
		case lower == "set":
			if r.Verb != Modify && r.Verb != Add {
				return fmt.Errorf("set is a word of modify: leave it out")
			}
			setting = true
		default:
			if err := r.readWord(word, setting); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Request) readWord(word string, setting bool) error {
	key, value, operator := splitWord(word)
	if operator == 0 {
		if option, known := findOption(word); known && r.Verb == Show {
			if remedy, later := laterOptions[option]; later {
				return fmt.Errorf("%s is not supported: %s", option, remedy)
			}
			r.Options[option] = true
			return nil
		}
		if setting && r.Verb == Modify {
			return fmt.Errorf("%.64q is no NAME=VALUE: what follows set is", word)
		}
		r.Where = append(r.Where, Setting{Key: r.nameKey(), Operator: Set, Value: word})
		return nil
	}
	row, err := r.findKey(key, setting)
	if err != nil {
		return err
	}
	s := Setting{Key: row.names[0], Operator: operator, Value: unquote(value)}
	if operator != Set && !row.list {
		return fmt.Errorf("%s is no list: write %s=VALUE", row.names[0], row.names[0])
	}
	if setting && !(r.Verb == Add && row.identifies&r.Entity != 0) {
		r.Set = append(r.Set, s)
		return nil
	}
	if operator != Set {
		return fmt.Errorf("%s in a condition is written with =", row.names[0])
	}
	r.Where = append(r.Where, s)
	return nil
}

// splitWord parts a word at its =, += or -=; no operator: it has none.
func splitWord(word string) (key, value string, operator Operator) {
	key, value, found := strings.Cut(word, "=")
	if !found {
		return "", "", 0
	}
	if trimmed, plus := strings.CutSuffix(key, "+"); plus {
		return trimmed, value, Plus
	}
	if trimmed, minus := strings.CutSuffix(key, "-"); minus {
		return trimmed, value, Minus
	}
	return key, value, Set
}

// unquote takes off the quotes that a shell has left, as sacctmgr does.
func unquote(value string) string {
	if len(value) >= 2 && (value[0] == '\'' || value[0] == '"') && value[len(value)-1] == value[0] {
		return value[1 : len(value)-1]
	}
	return value
}

func findOption(word string) (string, bool) {
	lower := strings.ToLower(word)
	for _, option := range options {
		if option == lower || len(lower) >= 5 && strings.HasPrefix(option, lower) {
			return option, true
		}
	}
	return "", false
}

// Refusal is an error in sacctmgr's own words, which begin with a capital.
type Refusal string

// Error is the sentence.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, arguments ...any) error { return Refusal(fmt.Sprintf(format, arguments...)) }
