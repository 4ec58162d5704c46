package spec

import (
	"fmt"
	"slices"
	"strings"
)

// MailTypes is of what mail is sent about a job (sbatch(1), --mail-type). The bits are
// persisted: append only.
type MailTypes uint32

// Kinds of mail.
const (
	MailBegin MailTypes = 1 << iota
	MailEnd
	MailFail
	MailRequeue
	MailInvalidDepend
	MailStageOut // never sent: files are staged out before a job is over
	MailTimeLimit
	MailTimeLimit90
	MailTimeLimit80
	MailTimeLimit50
	MailArrayTasks // of each task of an array, and not of the array
	mailEnd

	mailAll = MailBegin | MailEnd | MailFail | MailRequeue | MailInvalidDepend | MailStageOut
	// MailTimeLimits are those that a clock sends.
	MailTimeLimits = MailTimeLimit | MailTimeLimit90 | MailTimeLimit80 | MailTimeLimit50
)

var mailWords = []struct {
	word  string
	types MailTypes
}{
	{"NONE", 0}, {"ALL", mailAll}, {"BEGIN", MailBegin}, {"END", MailEnd}, {"FAIL", MailFail}, {"REQUEUE", MailRequeue},
	{"INVALID_DEPEND", MailInvalidDepend}, {"STAGE_OUT", MailStageOut}, {"TIME_LIMIT", MailTimeLimit}, {"TIME_LIMIT_90", MailTimeLimit90},
	{"TIME_LIMIT_80", MailTimeLimit80}, {"TIME_LIMIT_50", MailTimeLimit50}, {"ARRAY_TASKS", MailArrayTasks},
}

// ParseMailTypes reads words with commas between them, in any case. NONE takes all
// others away.
func ParseMailTypes(s string) (MailTypes, error) {
	var all MailTypes
	none := false
	for word := range strings.SplitSeq(s, ",") {
		word = strings.ToUpper(strings.TrimSpace(word))
		at := slices.IndexFunc(mailWords, func(known struct {
			word  string
			types MailTypes
		}) bool {
			return known.word == word
		})
		if at < 0 {
			return 0, fmt.Errorf("%q: type some of BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, STAGE_OUT, TIME_LIMIT, TIME_LIMIT_90, TIME_LIMIT_80, TIME_LIMIT_50 and ARRAY_TASKS, with commas between them, or NONE", shorten(word))
		}
		none = none || word == "NONE"
		all |= mailWords[at].types
	}
	if none {
		return 0, nil
	}
	return all, nil
}

// Valid reports whether all bits have a meaning.
func (t MailTypes) Valid() bool { return t < mailEnd }

// Bounds of --mail-user.
const (
	maxMailUserBytes = 512
	maxMailUsers     = 8
)

// ParseMailUsers reads addresses, or names of users, with commas between them. What is
// accepted can neither end a line of a mail's head nor be taken for an option.
func ParseMailUsers(s string) ([]string, error) {
	if len(s) > maxMailUserBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxMailUserBytes)
	}
	var users []string
	for user := range strings.SplitSeq(s, ",") {
		user = strings.Trim(user, " ")
		name, domain, isAddress := strings.Cut(user, "@")
		if !isMailWord(name) || isAddress && !isMailWord(domain) {
			return nil, fmt.Errorf("%q is no address: type one as ada@example.org, or the name of a user", shorten(user))
		}
		users = append(users, user)
	}
	if len(users) > maxMailUsers {
		return nil, fmt.Errorf("more than %d addresses: use a list of your mail server", maxMailUsers)
	}
	return users, nil
}

// isMailWord reports whether a part of an address is of letters, digits and the marks
// that need no quotes.
func isMailWord(s string) bool {
	if s == "" || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("._-+=~", rune(c)) {
			return false
		}
	}
	return true
}

// mailJSON are the kinds by the names that Slurm's JSON has for them.
var mailJSON = []struct {
	word  string
	types MailTypes
}{
	{"BEGIN", MailBegin}, {"END", MailEnd}, {"FAIL", MailFail}, {"REQUEUE", MailRequeue}, {"TIME=100%", MailTimeLimit}, {"TIME=90%", MailTimeLimit90},
	{"TIME=80%", MailTimeLimit80}, {"TIME=50%", MailTimeLimit50}, {"STAGE_OUT", MailStageOut}, {"ARRAY_TASKS", MailArrayTasks}, {"INVALID_DEPENDENCY", MailInvalidDepend},
}

// JSONWords are the kinds as Slurm's JSON lists them.
func (t MailTypes) JSONWords() []string {
	words := []string{}
	for _, one := range mailJSON {
		if t&one.types != 0 {
			words = append(words, one.word)
		}
	}
	return words
}
