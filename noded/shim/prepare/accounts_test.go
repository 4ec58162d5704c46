package prepare

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/container"
)

// accountsOf is a machine with these accounts.
func accountsOf(users, groups map[string]uint32, members map[string][]uint32) *nameService {
	nameOf := func(table map[string]uint32) func(uint32) (string, bool, error) {
		return func(id uint32) (string, bool, error) {
			for name, number := range table {
				if number == id {
					return name, true, nil
				}
			}
			return "", false, nil
		}
	}
	idOf := func(table map[string]uint32) func(string) (uint32, bool, error) {
		return func(name string) (uint32, bool, error) {
			id, known := table[name]
			return id, known, nil
		}
	}
	return &nameService{
		userName: nameOf(users), userID: idOf(users), groupName: nameOf(groups), groupID: idOf(groups),
		groupsOf: func(name string) ([]uint32, error) { return members[name], nil },
	}
}

func TestAccountsAreCompared(t *testing.T) {
	here := accountsOf(map[string]uint32{"ann": 1001, "ben": 1002}, map[string]uint32{"staff": 50, "lab": 60, "docker": 999},
		map[string][]uint32{"ann": {50, 60}})
	for name, c := range map[string]struct {
		user    container.User
		said    string // "" = it is let in
		dropped []uint32
	}{
		"the same":                     {user: container.User{UID: 1001, Name: "ann", GID: 50, Group: "staff", Groups: []uint32{50, 60}}},
		"somebody else's number":       {user: container.User{UID: 1002, Name: "ann", GID: 50, Group: "staff"}, said: `it is "ben"`},
		"somebody else's, of nobody":   {user: container.User{UID: 1002, Name: "eve", GID: 50, Group: "staff"}, said: `it is "ben"`},
		"somebody else's, no name":     {user: container.User{UID: 1002, GID: 50, Group: "staff"}, said: `it is "ben"`},
		"another number":               {user: container.User{UID: 1003, Name: "ann", GID: 50, Group: "staff"}, said: "has number 1001 and not 1003"},
		"unknown here":                 {user: container.User{UID: 5000, Name: "eve", GID: 5000, Group: "eve", Groups: []uint32{5000, 5001}}},
		"another group's number":       {user: container.User{UID: 1001, Name: "ann", GID: 999, Group: "ann"}, said: `it is "docker"`},
		"another number of the group":  {user: container.User{UID: 1001, Name: "ann", GID: 51, Group: "staff"}, said: "has number 50 and not 51"},
		"not in a group here":          {user: container.User{UID: 1001, Name: "ann", GID: 50, Group: "staff", Groups: []uint32{50, 60, 999, 7777}}, dropped: []uint32{999}},
		"unknown here, in groups here": {user: container.User{UID: 5000, Name: "eve", GID: 5000, Group: "eve", Groups: []uint32{60, 999, 5001}}, dropped: []uint32{60, 999}},
	} {
		dropped, err := here.compare(c.user)
		if c.said == "" && (err != nil || !slices.Equal(dropped, c.dropped)) {
			t.Errorf("%s: %v, %v, want %v", name, dropped, err, c.dropped)
		}
		if c.said != "" && (!errors.Is(err, ErrOtherAccount) || !strings.Contains(err.Error(), c.said)) {
			t.Errorf("%s: %v, want %q", name, err, c.said)
		}
	}
}
