package console

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/nameservice"
)

// UID is the calling user, for --me.
var UID = os.Getuid

// Me is this machine's name for the calling user, "" if it has none.
var Me = func() string {
	name, err := UserName(strconv.Itoa(UID()))
	if err != nil {
		return ""
	}
	return name
}

// nameDeadline bounds a question to the machine's name services, which may hang.
const nameDeadline = 10 * time.Second

// UserName is this machine's name for a user who is given by name or number.
// user.UnknownUserError is returned for others.
func UserName(word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nameDeadline)
	defer cancel()
	found, err := nameservice.Find(ctx, word)
	if err != nil {
		return "", user.UnknownUserError(word)
	}
	return found.Username, nil
}

// TellStrangers says which users this machine does not know, after nothing was found of them:
// a name is most likely misspelled then. It is no error, as in squeue.
func TellStrangers(inv *option.Invocation, words []string) {
	for _, word := range words {
		if _, err := strconv.ParseUint(word, 10, 32); err == nil {
			continue
		}
		if _, err := UserName(word); err != nil {
			fmt.Fprintf(inv.Stderr, "%s: error: Invalid user: %s\n", inv.Command.Program(), format.Printable(word))
		}
	}
}
