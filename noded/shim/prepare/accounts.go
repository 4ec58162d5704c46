package prepare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A job reads and writes by numbers, so they must mean on this node whom they mean
// to the controllers. Who is unknown here by name and by number is welcome: no
// file here is somebody else's, and the account is supplied to the job.

// ErrOtherAccount is returned, wrapped, for a number that is somebody else's here.
var ErrOtherAccount = errors.New("is somebody else's on this node")

// accountsPatience bounds how long the name service may take.
const accountsPatience = 60 * time.Second

// nameService is what this machine knows about its accounts. Each function answers
// false for what there is not.
type nameService struct {
	userName  func(uid uint32) (string, bool, error)
	userID    func(name string) (uint32, bool, error)
	groupName func(gid uint32) (string, bool, error)
	groupID   func(name string) (uint32, bool, error)
	groupsOf  func(name string) ([]uint32, error) // of a user who exists
}

// CheckAccounts compares the job's user and groups with those of this machine, and
// takes from the user the groups that are others' here.
func (j *Job) CheckAccounts(ctx context.Context) error {
	user, err := checkAccounts(ctx, j.User, j.Log)
	if err == nil {
		j.User = user
	}
	return err
}

// Person is the user of a job that need not run any more, as far as the accounts of this
// machine let it be that user.
func Person(ctx context.Context, owner *pb.Identity, log *slog.Logger) (container.User, error) {
	return checkAccounts(ctx, userOf(owner), log)
}

func checkAccounts(ctx context.Context, u container.User, log *slog.Logger) (container.User, error) {
	type answer struct {
		dropped []uint32
		err     error
	}
	asked := make(chan answer, 1)
	go func() {
		dropped, err := machineAccounts.compare(u)
		asked <- answer{dropped, err}
	}()
	var got answer
	select {
	case got = <-asked:
	case <-time.After(accountsPatience):
		return u, errors.New("the name service does not say who the job's user is: see whether getent passwd answers on this node")
	case <-ctx.Done():
		return u, ctx.Err()
	}
	if len(got.dropped) > 0 {
		log.Warn("the job does not get groups whose numbers are other groups' here, or in which its user is not here", "groups", got.dropped)
		u.Groups = slices.DeleteFunc(slices.Clone(u.Groups), func(gid uint32) bool { return slices.Contains(got.dropped, gid) })
	}
	return u, got.err
}

// compare answers the supplementary groups that u must not have here.
func (n *nameService) compare(u container.User) (dropped []uint32, err error) {
	known, err := same("user", u.Name, u.UID, n.userName, n.userID)
	if err != nil {
		return nil, err
	}
	if _, err := same("group", u.Group, u.GID, n.groupName, n.groupID); err != nil {
		return nil, err
	}
	var own []uint32
	if known {
		if own, err = n.groupsOf(u.Name); err != nil {
			return nil, fmt.Errorf("ask for the groups of user %s: %w", u.Name, err)
		}
	}
	for _, gid := range u.Groups {
		if gid == u.GID || slices.Contains(own, gid) {
			continue
		}
		_, exists, err := n.groupName(gid)
		if err != nil {
			return nil, fmt.Errorf("ask for group %d: %w", gid, err)
		}
		if exists {
			dropped = append(dropped, gid)
		}
	}
	return dropped, nil
}

// same refuses a name and a number of which the machine knows one, and not as that
// of the other. It answers whether the machine knows both.
func same(kind, name string, id uint32, nameOf func(uint32) (string, bool, error), idOf func(string) (uint32, bool, error)) (bool, error) {
	there, numberKnown, err := nameOf(id)
	if err != nil {
		return false, fmt.Errorf("ask for %s %d: %w", kind, id, err)
	}
	if numberKnown && there != name {
		// Two names of one number are one person.
		if other, known, err := idOf(name); err == nil && known && other == id && name != "" {
			return true, nil
		}
		return false, fmt.Errorf("%s number %d of %q %w: it is %q: give people and groups the same numbers on all machines, or keep the job off this node with --exclude", kind, id, name, ErrOtherAccount, there)
	}
	if numberKnown || name == "" {
		return numberKnown, nil
	}
	other, nameKnown, err := idOf(name)
	if err != nil {
		return false, fmt.Errorf("ask for %s %s: %w", kind, name, err)
	}
	if nameKnown {
		return false, fmt.Errorf("%s name %q %w: it has number %d and not %d: give people and groups the same numbers on all machines, or keep the job off this node with --exclude", kind, name, ErrOtherAccount, other, id)
	}
	return false, nil
}

// machineAccounts asks the machine's name service.
var machineAccounts = nameService{
	userName: func(uid uint32) (string, bool, error) {
		found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if none := user.UnknownUserIdError(0); errors.As(err, &none) {
			return "", false, nil
		} else if err != nil {
			return "", false, err
		}
		return found.Username, true, nil
	},
	userID: func(name string) (uint32, bool, error) {
		found, err := user.Lookup(name)
		if none := user.UnknownUserError(""); errors.As(err, &none) {
			return 0, false, nil
		} else if err != nil {
			return 0, false, err
		}
		return parseID(found.Uid)
	},
	groupName: func(gid uint32) (string, bool, error) {
		found, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10))
		if none := user.UnknownGroupIdError(""); errors.As(err, &none) {
			return "", false, nil
		} else if err != nil {
			return "", false, err
		}
		return found.Name, true, nil
	},
	groupID: func(name string) (uint32, bool, error) {
		found, err := user.LookupGroup(name)
		if none := user.UnknownGroupError(""); errors.As(err, &none) {
			return 0, false, nil
		} else if err != nil {
			return 0, false, err
		}
		return parseID(found.Gid)
	},
	groupsOf: func(name string) ([]uint32, error) {
		found, err := user.Lookup(name)
		if err != nil {
			return nil, err
		}
		texts, err := found.GroupIds()
		var ids []uint32
		for _, text := range texts {
			if id, known, err := parseID(text); err == nil && known {
				ids = append(ids, id)
			}
		}
		return ids, err
	},
}

func parseID(text string) (uint32, bool, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), err == nil, err
}
