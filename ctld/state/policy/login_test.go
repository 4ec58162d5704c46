package policy

import (
	"net/netip"
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
		policy := Default()
		policy.Logins = logins
		if _, err := Normalize(policy); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", logins, err, why)
		}
	}
	policy := Default()
	policy.Logins = []Login{{Hosts: "login[2,1]", Users: []string{"bob", "ann", "ann"}, Privileged: []string{"root", "op"}}, {Hosts: "gpu1", MinUID: 1, MaxUID: 4294967295}}
	normal, err := Normalize(policy)
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

// TestMungeNetworks: an address is in one [[login]] at most, written in whatever way, and
// what is no network is refused with its reason.
func TestMungeNetworks(t *testing.T) {
	munge := func(networks ...string) Login { return Login{Munge: networks} }
	for why, logins := range map[string][]Login{
		"addresses in common": {munge("10.1.0.0/16"), munge("10.1.2.3")}, "two ways in": {{Hosts: "a", Munge: []string{"10.0.0.1"}}},
		`"login1" is no network`: {munge("login1")}, `"10.0.0.0/33" is no network`: {munge("10.0.0.0/33")}, `"fe80::1%eth0" is no network`: {munge("fe80::1%eth0")},
		`"" is no network`: {munge("")}, `"::ffff:10.0.0.1" is no network`: {munge("::ffff:10.0.0.1")}, "too many": {munge(make([]string, maxMungeNets+1)...)},
		"munge:10.0.0.1/32: min_uid": {{Munge: []string{"10.0.0.1"}, MinUID: 9, MaxUID: 8}},
	} {
		policy := Default()
		policy.Logins = logins
		if _, err := Normalize(policy); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", logins, err, why)
		}
	}
	policy := Default()
	policy.Logins = []Login{{Hosts: "login1"}, {Munge: []string{"10.1.9.9/16", "10.1.0.0/16", "10.2.0.1"}, MinUID: 2000}, munge("fd00::/8")}
	normal, err := Normalize(policy)
	if err != nil {
		t.Fatal(err)
	}
	message := Message(normal)
	again, err := Normalize(FromMessage(message))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Policy{normal, again} {
		for address, minimum := range map[string]uint32{"10.1.255.255": 2000, "::ffff:10.1.0.1": 2000, "10.2.0.1": 2000, "fd12::1": 1000, "10.2.0.2": 0, "0.0.0.0": 0, "::1": 0, "127.0.0.1": 0} {
			got := p.MungeLoginOf(netip.MustParseAddr(address))
			if (got == nil) != (minimum == 0) || got != nil && got.MinUID != minimum {
				t.Errorf("%s: %+v", address, got)
			}
		}
		if p.MungeLoginOf(netip.Addr{}) != nil || p.LoginOf("") != nil || p.LoginOf("login1") == nil {
			t.Error("no address, or no name, has a login")
		}
	}
	var keys []string
	for _, entry := range normal.LoginEntries() {
		keys = append(keys, entry.GetKey())
	}
	if want := "Login[login1] Login[munge:10.1.0.0/16,10.2.0.1/32] Login[munge:fd00::/8]"; strings.Join(keys, " ") != want {
		t.Errorf("shown as %q", keys)
	}
}
