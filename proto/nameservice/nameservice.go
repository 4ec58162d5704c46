// Package nameservice asks this host who a user is.
//
// Contract: Find answers the same in every program. One that is linked without the C
// library reads /etc/passwd only; getent then asks the directories that nsswitch.conf(5)
// names. A service that does not answer is another error than an unknown user.
// The context bounds how long an answer may take.
package nameservice

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
)

// Find is the user of a name or a number, with those two fields. user.UnknownUserError is
// returned for one whom the host does not know.
func Find(ctx context.Context, word string) (*user.User, error) {
	look := user.Lookup
	_, notNumber := strconv.ParseUint(word, 10, 32)
	if notNumber == nil {
		look = user.LookupId
	}
	if known, err := look(word); err == nil {
		return &user.User{Username: known.Username, Uid: known.Uid}, nil
	}
	fields, err := Entry(ctx, word)
	var ended *exec.ExitError
	switch {
	// A directory may spell a name in another way than it was asked.
	case err == nil && len(fields) >= 3 && fields[0] != "" && (notNumber != nil || fields[2] == word):
		return &user.User{Username: fields[0], Uid: fields[2]}, nil
	case err == nil, errors.As(err, &ended) && ended.ExitCode() == noSuchKey:
		return nil, user.UnknownUserError(word)
	}
	return nil, fmt.Errorf("getent: %w", err)
}

// Entry answers the fields of passwd(5) that the name service has for a name or a number.
// An error is getent's, as os/exec returns it.
func Entry(ctx context.Context, word string) ([]string, error) {
	line, err := exec.CommandContext(ctx, "getent", "passwd", "--", word).Output()
	return strings.Split(strings.TrimSpace(string(line)), ":"), err
}

// noSuchKey is how getent(1) ends for a name that is not there.
const noSuchKey = 2
