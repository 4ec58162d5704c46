package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// atTerminal runs a command line with a terminal as its standard input, at which
// somebody types an answer.
func atTerminal(t *testing.T, line, answer string) outcome {
	t.Helper()
	master, path, err := console.NewPty()
	if err != nil {
		t.Skip("needs pseudo terminals (/dev/ptmx):", err)
	}
	defer master.Close()
	terminal, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := master.Write([]byte(answer)); err != nil {
		t.Fatal(err)
	}
	words, err := splitWords(line)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	status := dispatch(ctx, words, option.Streams{Stdin: terminal, Stdout: &stdout, Stderr: &stderr})
	return outcome{status, stdout.String(), stderr.String()}
}

// changed says how often the stub was asked to try, and how often to change.
func (s *stubController) changed() (tried, done int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, write := range s.writes {
		var dry bool
		switch request := write.(type) {
		case *pb.ChangeAccountsRequest:
			dry = request.DryRun
		case *pb.ApplyPolicyRequest:
			dry = request.DryRun
		}
		if dry {
			tried++
		} else {
			done++
		}
	}
	return tried, done
}

// TestPrompts: on a terminal gacctmgr and gcontrol apply ask, and only a yes is
// one. The answers are typed, so that the terminal makes lines of them, and an
// end of file of control-D.
func TestPrompts(t *testing.T) {
	policy := write(t, t.TempDir()+"/cluster.toml", "[[partition]]\nname = \"main\"\ndefault = true\n")
	for _, asks := range []struct{ line, question, discarded string }{
		{"gacctmgr add account maths fairshare=5", "Would you like to commit changes?", "Changes Discarded"},
		{"gcontrol apply -f " + policy, "[y/N]", "nothing was changed"},
	} {
		for answer, yes := range map[string]bool{
			"y\n": true, "Y\n": true, " yes \n": true, "YES\n": true,
			"\n": false, "n\n": false, "no\n": false, "yep\n": false, "ny\n": false, "\x04": false, "n\ny\n": false,
		} {
			stub := stubCluster()
			stub.changes = []*pb.PolicyChange{{Path: "kill_wait_s", Before: "30", After: "5"}}
			serveStub(t, stub)
			got := atTerminal(t, asks.line, answer)
			tried, done := stub.changed()
			want := 0
			if yes {
				want = 1
			}
			if tried != 1 || done != want || got.status != 1-want || !strings.Contains(got.stdout+got.stderr, asks.question) ||
				strings.Contains(got.stderr, asks.discarded) == yes {
				t.Errorf("%s, answered %q: tried %d times, done %d times, %+v", asks.line, answer, tried, done, got)
			}
		}
	}
	// Nobody is waited for, for ever.
	decide := decideTime
	decideTime = 200 * time.Millisecond
	t.Cleanup(func() { decideTime = decide })
	stub := stubCluster()
	serveStub(t, stub)
	if got := atTerminal(t, "gacctmgr add account maths", ""); got.status != 1 || !strings.Contains(got.stderr, "Changes Discarded") {
		t.Errorf("silence: %+v", got)
	}
	if _, done := stub.changed(); done != 0 {
		t.Error("silence is taken for a yes")
	}
}
