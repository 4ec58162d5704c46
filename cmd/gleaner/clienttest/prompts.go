package clienttest

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Prompts types answers to the question that a command line asks at a terminal:
// only a yes is one. The answers are typed, so that the terminal makes lines of
// them, and an end of file of control-D.
func (p Player) Prompts(t *testing.T, line, question, discarded string) {
	t.Helper()
	for answer, yes := range map[string]bool{
		"y\n": true, "Y\n": true, " yes \n": true, "YES\n": true,
		"\n": false, "n\n": false, "no\n": false, "yep\n": false, "ny\n": false, "\x04": false, "n\ny\n": false,
	} {
		stub := StubCluster()
		stub.Changes = []*pb.PolicyChange{{Path: "kill_wait_s", Before: "30", After: "5"}}
		ServeStub(t, stub)
		got := p.AtTerminal(t, line, answer)
		tried, done := stub.Changed()
		want := 0
		if yes {
			want = 1
		}
		if tried != 1 || done != want || got.Status != 1-want || !strings.Contains(got.Stdout+got.Stderr, question) ||
			strings.Contains(got.Stderr, discarded) == yes {
			t.Errorf("%s, answered %q: tried %d times, done %d times, %+v", line, answer, tried, done, got)
		}
	}
}
