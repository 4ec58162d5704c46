package scenario

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["oldgctld"] = buildOld }

// buildOld is `oldgctld FILE`: builds a gctld that understands the first
// feature level only, as the program before the present one did.
func buildOld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: oldgctld FILE")
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		ts.Fatalf("needs go, to build an older controller: %v", err)
	}
	target := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(target), 0o755))
	build := exec.Command(compiler, "build", "-tags", "seccomp gleaner_level1", "-ldflags", "-X main.version=older", "-o", target, "../../cmd/gctld")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build an older gctld: %v\n%s", err, out)
	}
}
