package spec

import (
	"slices"
	"strings"
	"testing"
)

func TestParseMailTypes(t *testing.T) {
	for in, want := range map[string]MailTypes{
		"BEGIN": MailBegin, "end, fail": MailEnd | MailFail, "ALL": mailAll, "NONE": 0, "ALL,NONE": 0,
		"TIME_LIMIT_80,ARRAY_TASKS": MailTimeLimit80 | MailArrayTasks, "all,time_limit": mailAll | MailTimeLimit,
	} {
		if got, err := ParseMailTypes(in); got != want || err != nil {
			t.Errorf("%q: %b, %v; want %b", in, got, err, want)
		}
	}
	for _, in := range []string{"", "BEGIN,", "NOSUCH", "BEGIN END", "TIME_LIMIT_70"} {
		if got, err := ParseMailTypes(in); err == nil {
			t.Errorf("%q reads as %b", in, got)
		}
	}
	if !mailAll.Valid() || mailEnd.Valid() {
		t.Error("the bits that have a meaning")
	}
}

func TestParseMailUsers(t *testing.T) {
	for in, want := range map[string][]string{
		"ada": {"ada"}, "ada@example.org, eve": {"ada@example.org", "eve"}, "a.b+c@x-y.org": {"a.b+c@x-y.org"},
	} {
		if got, err := ParseMailUsers(in); !slices.Equal(got, want) || err != nil {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ",", "-oQ/tmp", "ada\nBcc: eve@example.org", "ada@", "@x", "a b", "|sh", "a@b@c", "\"a\"@x", "a@x\r", "ada;rm", strings.Repeat("a,", 9) + "a", strings.Repeat("a", 600)} {
		if got, err := ParseMailUsers(in); err == nil {
			t.Errorf("%q reads as %q", in, got)
		}
	}
}

// What is accepted holds nothing that ends a line or begins an option.
func FuzzMailUsers(f *testing.F) {
	for _, seed := range []string{"ada@example.org,eve", "-x", "a@b\n", "ä@b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		users, err := ParseMailUsers(in)
		if err != nil {
			return
		}
		for _, user := range users {
			if user == "" || user[0] == '-' || strings.ContainsAny(user, " \t\r\n\x00<>\"'`$|;&") {
				t.Errorf("%q has %q", in, user)
			}
		}
	})
}
