package console

import (
	"context"
	"os"
	"os/user"
	"strconv"
	"time"

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
