package state

import (
	"strings"
	"testing"
)

// TestLoginsAreChecked: a host is in one [[login]] at most, and what a host may not say is
// refused with its reason.
func TestLoginsAreChecked(t *testing.T) {
	for why, logins := range map[string][]Login{
		"named twice":       {{Hosts: "login[1-2]"}, {Hosts: "login2"}},
		"host list":         {{Hosts: "ALL"}},
		"is above max_uid":  {{Hosts: "a", MinUID: 5000, MaxUID: 4000}},
		"is no login name":  {{Hosts: "a", Users: []string{"ann:bob"}}},
		"hosts":             {{Hosts: "a[1-"}},
		"name the hosts in": {{Hosts: ""}},
	} {
		policy := DefaultPolicy()
		policy.Logins = logins
		if _, err := NormalizePolicy(policy); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", logins, err, why)
		}
	}
	policy := DefaultPolicy()
	policy.Logins = []Login{{Hosts: "login[2,1]", Users: []string{"bob", "ann", "ann"}, Privileged: []string{"root", "op"}}, {Hosts: "gpu1", MinUID: 1, MaxUID: 4294967295}}
	normal, err := NormalizePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	login, gpu := normal.LoginOf("login2"), normal.LoginOf("gpu1")
	if normal.LoginOf("login3") != nil || login == nil || login.Hosts != "login[1-2]" || login.MinUID != 1000 || login.MaxUID != 60000 {
		t.Fatalf("login2 is %+v", login)
	}
	for _, one := range []struct {
		login      *Login
		uid        uint32
		user       string
		privileged bool
		works      bool
	}{
		{login, 1000, "ann", false, true}, {login, 60000, "bob", false, true}, {login, 999, "ann", false, false}, {login, 60001, "ann", false, false},
		{login, 1001, "eve", false, false}, {login, 0, "root", true, true}, {login, 1002, "op", true, true}, {login, 1003, "op2", true, false}, {login, 5, "op", true, false},
		{gpu, 1, "daemon", false, true}, {gpu, 0, "root", true, false}, {gpu, 0, "root", false, false}, {gpu, 65534, "nobody", false, false}, {gpu, 4294967295, "x", false, true},
	} {
		if why := one.login.Problem(one.uid, one.user, one.privileged); (why == "") != one.works {
			t.Errorf("%s (%d) from %s: %q", one.user, one.uid, one.login.Hosts, why)
		}
	}
	for uid, counts := range map[uint32]bool{0: true, 999: false, 1000: true, 65534: false} {
		if login.MayCount(uid) != counts {
			t.Errorf("a request for %d: counts as that user's is %v", uid, !counts)
		}
	}
	if gpu.MayCount(0) || (*Login)(nil).MayCount(1000) {
		t.Error("a request counts for somebody whom the host may not speak for")
	}
}
