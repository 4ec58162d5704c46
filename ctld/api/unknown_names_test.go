package api

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// TestUnknownNames: what accounting does not know is said while it is accepted,
// and not when nothing was named or it would be refused.
func TestUnknownNames(t *testing.T) {
	s := state.New()
	for i, command := range []state.Command{labs(t)} {
		entry, err := state.Encode(command, state.RequestID{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if result, err := s.Apply(uint64(i+1), entry); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	view := s.View()
	for _, c := range []struct {
		user, account, qos string
		want               []string // of each warning
	}{
		{user: "carl"},
		{user: "carl", account: "chemistry", qos: "normal"},
		{user: "carl", qos: "high"}, // not his, but not enforced
		{user: "carl", account: "chemisty", want: []string{`no account "chemisty": nobody is charged for the job, and no share or limit counts for it; did you mean chemistry?`}},
		{user: "carl", account: "physics", want: []string{`user "carl" has no association with account physics: nobody is charged for the job, and no share or limit counts for it; there is one with chemistry`}},
		{user: "dora", account: "physics", want: []string{`user "dora" has no association with account physics: nobody is charged for the job, and no share or limit counts for it`}},
		{user: "ada", qos: "hihg", want: []string{`no QOS "hihg": the job has the priority of none, and no limits of one; did you mean high?`}},
		{user: "ada", account: "zzz", qos: "\x1b[2J", want: []string{`no account "zzz"`, `no QOS "\x1b[2J"`}},
	} {
		command := &state.SubmitJob{Spec: state.Spec{Account: c.account, QOS: c.qos}, Owner: state.Owner{User: c.user, UID: 7}}
		got := unknownNames(view, command, []string{"main"})
		if len(got) != len(c.want) {
			t.Errorf("%+v: %q", c, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%+v: %q", c, got[i])
			}
		}
	}
}

// labs is the command that makes two labs.
func labs(t *testing.T) state.Command {
	t.Helper()
	command, err := state.ChangesFromMessage(labChanges().Changes)
	if err != nil {
		t.Fatal(err)
	}
	return command
}
