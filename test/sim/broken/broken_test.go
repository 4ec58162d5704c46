package broken

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// mostSeeds is how many simulated days a fault may stay unnoticed.
var mostSeeds = prototest.Soak("8", "200")

// simulated are the faults that the simulation has in it. Unconfirmed is not among them: what
// is above it, and nothing else of the controllers, is compiled for it alone.
var simulated = slices.Concat(Faults, Rare)

// TestFaultsAreThere finds the lines of every fault, at once: the tests below take
// minutes.
func TestFaultsAreThere(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeOverlay(root, t.TempDir(), append(slices.Clone(simulated), Unconfirmed)); err != nil {
		t.Error(err)
	}
}

// TestCheckersNoticeOldAnswers breaks a leader's care for its reads, and runs
// whole controllers with raft.
func TestCheckersNoticeOldAnswers(t *testing.T) {
	program := build(t, "./test/sim/raftmode", true, Unconfirmed)
	command := exec.Command(program, "-test.run", "TestFormerLeader")
	command.Env = append(os.Environ(), Wake(0))
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not linearizable") {
		t.Fatalf("nobody noticed: %v\n%s", err, out)
	}
}

var failed = regexp.MustCompile(`seed \d+ failed after .*`)

// TestCheckersNotice breaks the real code, one thing at a time.
func TestCheckersNotice(t *testing.T) {
	faults := slices.Concat(Faults, prototest.Soak(nil, Rare))
	program := build(t, "./test/sim", false, simulated...)
	for number, fault := range faults {
		t.Run(strings.ReplaceAll(fault.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			// As a rule the first day shows it. Days beside it would be in vain.
			out, err := run(program, number, append([]string{"-seeds", "1"}, fault.Flags...))
			if err == nil {
				out, err = run(program, number, append([]string{"-seeds", mostSeeds}, fault.Flags...))
			}
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
	// What no fault changes, its program must find nothing wrong with.
	t.Run("all-asleep", func(t *testing.T) {
		t.Parallel()
		if out, err := exec.Command(program, "-seeds", "1", "-hours", "6").CombinedOutput(); err != nil {
			t.Fatalf("with every fault asleep: %v\n%s", err, out)
		}
	})
}

// run runs the simulation with one fault awake.
func run(program string, number int, flags []string) ([]byte, error) {
	command := exec.Command(program, flags...)
	command.Env = append(os.Environ(), Wake(number))
	return command.CombinedOutput()
}

func build(t *testing.T, path string, tests bool, faults ...Fault) (program string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err = Build(root, t.TempDir(), path, tests, faults)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestApply(t *testing.T) {
	text := "if a || b {\n}\nreturn a\n"
	edit := func(number int, from, to string) change {
		return change{number, "fault", Edit{Old: from, New: to}}
	}
	got, err := apply(text, []change{edit(1, "return a", "return !BROKEN && a"), edit(0, "a || b", "BROKEN || a || b")})
	if want := "if (simulatedFault == 1) || a || b {\n}\nreturn !(simulatedFault == 2) && a\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for name, list := range map[string][]change{
		"twice":      {edit(0, "a", "BROKEN")},
		"absent":     {edit(0, "c", "BROKEN")},
		"not asleep": {edit(0, "return a", "return b")},
		"overlap":    {edit(0, "if a ||", "if BROKEN ||"), edit(1, "a || b", "BROKEN || b")},
	} {
		if got, err := apply(text, list); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}
