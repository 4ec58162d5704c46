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
