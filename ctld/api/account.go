package api

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	passwd "github.com/moby/sys/user"
	"golang.org/x/sync/singleflight"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/nameservice"
)

// Accounts are looked up in the host's name service and remembered for a short
// while: a thousand submissions a second must not send a thousand questions to
// a directory server, and a new group must count soon.
const (
	accountTTL  = 15 * time.Second
	maxAccounts = 4096
	getentLimit = 3 * time.Second
	maxGroups   = 65536 // NGROUPS_MAX of Linux

	// Lookups under way at once, for requests and for connections. Each holds a thread for as
	// long as a name service does not answer, and a process has 10,000 of them. Those for
	// connections are few: anybody may connect, as any of the numbers that subuid(5) gives.
	maxLookups     = 2048
	maxDoorLookups = 256
)

// lookupPatience is how long a request waits for the name service.
var lookupPatience = 10 * time.Second

var errNoAccount = errors.New("no such user in the user database of the controller's host")

var errNameService = fmt.Errorf("%w: its name service does not answer in time: try again, and tell an administrator if it stays so", errNoAccount)

type accountEntry struct {
	owner *pb.Identity
	err   error
	until time.Time
}

var accounts = struct {
	sync.Mutex
	entries map[string]accountEntry
}{entries: make(map[string]accountEntry)}

// lookupUID returns the account with this number.
func lookupUID(uid uint32) (*pb.Identity, error) {
	return requestLookups.uid(uid)
}

func (l *lookups) uid(uid uint32) (*pb.Identity, error) {
	text := strconv.FormatUint(uint64(uid), 10)
	return l.remember("#"+text, func() (*user.User, error) { return user.LookupId(text) })
}

// lookupName returns the account of this name.
func lookupName(name string) (*pb.Identity, error) {
	if name == "" || len(name) > 256 || strings.ContainsAny(name, ":\n\x00") {
		return nil, errNoAccount
	}
	return requestLookups.remember(name, func() (*user.User, error) { return user.Lookup(name) })
}

// remembered is the account of this name if it was looked up before, however
// long ago: it asks no name service.
func remembered(name string) (*pb.Identity, bool) {
	accounts.Lock()
	defer accounts.Unlock()
	entry := accounts.entries[name]
	return entry.owner, entry.owner != nil
}

// noAccount is the error for an account that could not be found. It gives a
// reason only if there is one other than that the account does not exist.
func noAccount(err error) error {
	var unknownName user.UnknownUserError
	var unknownID user.UnknownUserIdError
	if errors.As(err, &unknownName) || errors.As(err, &unknownID) {
		return errNoAccount
	}
	return fmt.Errorf("%w: %w", errNoAccount, err)
}

func (l *lookups) remember(key string, find func() (*user.User, error)) (*pb.Identity, error) {
	now := time.Now()
	accounts.Lock()
	entry, known := accounts.entries[key]
	accounts.Unlock()
	if known && now.Before(entry.until) {
		return entry.owner, entry.err
	}
	asked := l.underWay.DoChan(key, func() (any, error) { return l.ask(key, find), nil })
	timer := time.NewTimer(lookupPatience)
	defer timer.Stop()
	select {
	case answer := <-asked:
		entry, _ = answer.Val.(accountEntry)
		return entry.owner, entry.err
	case <-timer.C:
		return nil, errNameService
	}
}

// lookups are questions to the name service: one for each key at a time, whoever asks.
type lookups struct {
	underWay singleflight.Group
	places   chan struct{}
}

var (
	requestLookups = &lookups{places: make(chan struct{}, maxLookups)}
	doorLookups    = &lookups{places: make(chan struct{}, maxDoorLookups)}
)

// ask asks the name service, and remembers the answer.
func (l *lookups) ask(key string, find func() (*user.User, error)) (entry accountEntry) {
	select {
	case l.places <- struct{}{}:
		defer func() { <-l.places }()
	default:
		return accountEntry{err: errNameService}
	}
	found, err := find()
	if err == nil {
		entry.owner, entry.err = complete(found)
	} else {
		entry.err = noAccount(err)
	}
	entry.until = time.Now().Add(accountTTL)
	accounts.Lock()
	defer accounts.Unlock()
	if len(accounts.entries) >= maxAccounts {
		clear(accounts.entries)
	}
	accounts.entries[key] = entry
	return entry
}

// complete adds what a job needs: groups, group name, shell.
func complete(found *user.User) (*pb.Identity, error) {
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("account %s: %w", found.Username, err)
	}
	owner := &pb.Identity{Uid: uint32(uid), Gid: uint32(gid), User: found.Username, Group: found.Gid, Home: found.HomeDir, Shell: shellOf(found.Username, int(uid))}
	if group, err := user.LookupGroupId(found.Gid); err == nil {
		owner.Group = group.Name
	}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of %s: %w", found.Username, err)
	}
	owner.Groups = []uint32{owner.Gid}
	for _, id := range ids {
		if number, err := strconv.ParseUint(id, 10, 32); err == nil {
			owner.Groups = append(owner.Groups, uint32(number))
		}
	}
	slices.Sort(owner.Groups)
	owner.Groups = slices.Compact(owner.Groups)
	if len(owner.Groups) > maxGroups {
		return nil, fmt.Errorf("%s is in %d groups, the kernel takes %d", found.Username, len(owner.Groups), maxGroups)
	}
	return owner, nil
}

// shellOf finds the login shell, which os/user does not give: in the local
// file, else in the name service (getent(1)).
func shellOf(name string, uid int) string {
	if entry, err := passwd.LookupUid(uid); err == nil && entry.Name == name && entry.Shell != "" {
		return entry.Shell
	}
	ctx, cancel := context.WithTimeout(context.Background(), getentLimit)
	defer cancel()
	fields, err := nameservice.Entry(ctx, strconv.Itoa(uid))
	if err == nil && len(fields) == 7 && fields[6] != "" {
		return fields[6]
	}
	return "/bin/sh"
}

// identityOf is a job's owner as a message.
func identityOf(owner *state.Owner) *pb.Identity {
	return &pb.Identity{
		Uid: owner.UID, Gid: owner.GID, Groups: owner.Groups, User: owner.User,
		Group: owner.Group, Home: owner.Home, Shell: owner.Shell, UidDomain: owner.UIDDomain,
	}
}
