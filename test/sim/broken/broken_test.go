package broken

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostSeeds is how many simulated days a fault may stay unnoticed.
const mostSeeds = "40"

// TestCheckersNoticeOldAnswers breaks a leader's care for its reads, and runs
// whole controllers with raft.
func TestCheckersNoticeOldAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a minute: builds the controllers once more")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := Overlay(root, t.TempDir(), Unconfirmed)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "test", "-count=1", "-overlay", overlay, "-run", "TestFormerLeader", "./test/sim/raftmode")
	command.Dir = root
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not linearizable") {
		t.Fatalf("nobody noticed: %v\n%s", err, out)
	}
}

var failed = regexp.MustCompile(`seed \d+ failed after .*`)

// TestCheckersNotice breaks the real code, one thing at a time.
func TestCheckersNotice(t *testing.T) {
	if testing.Short() {
		t.Skip("needs some minutes: builds the simulation several times")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range Faults {
		t.Run(strings.ReplaceAll(fault.Name, " ", "-"), func(t *testing.T) {
			program, err := Build(root, t.TempDir(), "./test/sim", fault)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(program, append([]string{"-seeds", mostSeeds}, fault.Flags...)...).CombinedOutput()
			if err == nil {
				t.Fatalf("nobody noticed:\n%s", out)
			}
			what := failed.FindString(string(out))
			if what == "" {
				t.Fatalf("%v:\n%s", err, out)
			}
			t.Log(what)
		})
	}
}
