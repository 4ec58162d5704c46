package login

import (
	"context"
	"errors"
	"os/user"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/nameservice"
)

// Names are remembered for a short while: the name service may be elsewhere, and hang.
const (
	nameTTL   = 15 * time.Second
	nameLimit = 3 * time.Second
	maxNames  = 4096
	maxAsked  = 64 // questions that are not answered
)

// names are what this host calls its users.
type names struct {
	mu    sync.Mutex
	known map[uint32]named
	asked int

	lookup func(uid string) (*user.User, error) // nil = the host's name service
}

type named struct {
	name  string
	until time.Time
}

// of is the name of a user. Who has none here is nobody anywhere.
func (n *names) of(ctx context.Context, uid uint32) (string, error) {
	n.mu.Lock()
	found, known := n.known[uid]
	n.mu.Unlock()
	if known && time.Now().Before(found.until) {
		return found.name, nil
	}
	name, err := n.ask(ctx, uid)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= maxNames {
		n.known = make(map[uint32]named)
	}
	n.known[uid] = named{name, time.Now().Add(nameTTL)}
	return name, nil
}

func (n *names) ask(ctx context.Context, uid uint32) (string, error) {
	type outcome struct {
		user *user.User
		err  error
	}
	lookup := n.lookup
	if lookup == nil {
		lookup = lookupID
	}
	if !n.begin() {
		return "", status.Errorf(codes.Unavailable, "the name service of this host answers nothing: it was asked %d times", maxAsked)
	}
	answered := make(chan outcome, 1)
	go func() {
		defer n.end()
		found, err := lookup(strconv.FormatUint(uint64(uid), 10))
		answered <- outcome{found, err}
	}()
	late := time.NewTimer(nameLimit)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	case <-late.C:
		return "", status.Errorf(codes.Unavailable, "the name service of this host does not say who user %d is", uid)
	case got := <-answered:
		var unknown user.UnknownUserError
		switch {
		case errors.As(got.err, &unknown):
			return "", status.Errorf(codes.PermissionDenied, "user %d has no account on this host", uid)
		case got.err != nil:
			return "", status.Errorf(codes.Unavailable, "the name service of this host does not say who user %d is: %v", uid, got.err)
		}
		return got.user.Username, nil
	}
}

// lookupID asks the host.
func lookupID(uid string) (*user.User, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nameLimit)
	defer cancel()
	return nameservice.Find(ctx, uid)
}

// begin takes a place among the questions: a service that hangs keeps each for good.
func (n *names) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked >= maxAsked {
		return false
	}
	n.asked++
	return true
}

func (n *names) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked--
}
