// Package arch holds the tests of the house itself: which package may import
// which, and that each opens with its contract.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/gleaner-hpc/gleaner/"

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Name       string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// listOnce asks for all packages, which takes longer than what is done with them.
var listOnce = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-tags", "seccomp", "-json=ImportPath,Dir,Name,Doc,Imports,GoFiles", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		return nil, fmt.Errorf("go list found only %d packages", len(all))
	}
	return all, nil
})

// within reports whether the package path lies in one of the folders.
func within(path string, folders ...string) bool {
	for _, folder := range folders {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// forbidden lists the arrows that must not exist, each with its reason.
var forbidden = []struct {
	from   []string
	to     []string
	except []string // folders that to may reach after all
	why    string
}{
	{[]string{"sched"}, []string{""}, []string{"sched"}, "the decision is a pure function a stranger could import"},
	{[]string{"sched/place"}, []string{""}, []string{"sched/place"}, "placement has its own bare types and never knows the queue"},
	{[]string{"sched/fairshare"}, []string{""}, []string{"sched/fairshare"}, "fair share is numbers in, numbers out"},
	{[]string{"sched/priority"}, []string{""}, []string{"sched/priority"}, "priority is numbers in, numbers out"},
	{[]string{"cgroup"}, []string{""}, []string{"cgroup"}, "cgroup stands alone"},
	{[]string{"checkpoint"}, []string{""}, []string{"checkpoint"}, "checkpoint stands alone"},
	{[]string{"proto"}, []string{""}, []string{"proto"}, "contracts know nobody"},
	{[]string{"ctld"}, []string{"noded", "cmd", "test"}, nil, "controller and node meet only in proto"},
	{[]string{"noded"}, []string{"ctld", "sched", "cmd", "test"}, nil, "controller and node meet only in proto"},
	{[]string{"noded/shim/remove"}, []string{"noded"}, []string{"noded/shim/remove"}, "what an allocation leaves is removed without knowing what it was"},
	{[]string{"noded/shim/socket"}, []string{"noded"}, []string{"noded/shim/socket"}, "sockets know no allocation"},
	{[]string{"noded/shim/bundle"}, []string{"noded/shim"}, []string{"noded/shim/bundle", "noded/shim/remove"}, "what lies on disk does not know who reads it"},
	{[]string{"noded/shim/relay"}, []string{"noded"}, []string{"noded/shim/relay", "noded/shim/bundle", "noded/shim/socket", "noded/pid1"}, "bytes are relayed without knowing why the job runs or is frozen"},
	{[]string{"noded/gangnet"}, []string{"noded", "checkpoint", "cgroup"}, []string{"noded/gangnet", "noded/thread"}, "a network between nodes does not know whose it is, or why it is cut"},
	{[]string{"noded/shim/prepare"}, []string{"noded/shim"}, []string{"noded/shim/prepare", "noded/shim/bundle"}, "what a container is made of follows from the order and the settings"},
	{[]string{"noded/shim/gpumem"}, []string{"noded/shim"}, []string{"noded/shim/gpumem", "noded/shim/bundle"}, "GPU memory is parked without knowing what the save is for"},
	{[]string{"noded/shim/imagedir"}, []string{"noded/shim"}, []string{"noded/shim/imagedir", "noded/shim/bundle", "noded/shim/remove"}, "an image is brought without knowing who resumes from it"},
	{[]string{"noded/shim/save"}, []string{"noded/shim"}, []string{"noded/shim/save", "noded/shim/bundle", "noded/shim/remove", "noded/shim/prepare", "noded/shim/relay", "noded/shim/gpumem"}, "a save takes its steps; package supervise decides about it"},
	{[]string{"noded/shim/client"}, []string{"noded/shim"}, []string{"noded/shim/client", "noded/shim/bundle", "noded/shim/remove", "noded/shim/socket"}, "the daemon reaches a supervisor by its directory and its socket"},
	{[]string{"ctld/state"}, []string{"ctld"}, []string{"ctld/state"}, "the state machine knows no I/O"},
	{[]string{"ctld/state/policy"}, []string{"ctld"}, []string{"ctld/state/policy", "ctld/state/bounds", "ctld/state/ranges"}, "the policy is data: what it means for a job or a node, the state decides"},
	{[]string{"ctld/state/bounds", "ctld/state/ranges"}, []string{"ctld"}, []string{"ctld/state/bounds", "ctld/state/ranges"}, "bounds and ranges are of any command"},
	{[]string{"cmd/gleaner"}, []string{"ctld", "noded", "cgroup", "checkpoint"}, nil, "user commands speak only the public interface"},
	{[]string{"cmd/ginit"}, []string{"ctld", "sched", "cgroup", "checkpoint", "proto/gleaner"}, nil, "process 1 stays small"},
	{[]string{"oci"}, []string{""}, []string{"oci"}, "container images are read without knowing for whom"},
	{[]string{"noded/roots"}, []string{"noded"}, []string{"noded/roots", "noded/userpath", "noded/shim/remove"}, "the cache of container images knows no job"},
	{[]string{"cmd"}, []string{"test"}, nil, "nothing imports test"},
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			for _, rule := range forbidden {
				reaches := within(target, rule.to...) || (len(rule.to) == 1 && rule.to[0] == "")
				if within(path, rule.from...) && reaches && !within(target, rule.except...) {
					t.Errorf("%s imports %s: %s", path, target, rule.why)
				}
			}
			if strings.HasPrefix(target, "cmd/") && !strings.HasPrefix(path, "cmd/") {
				t.Errorf("%s imports %s: nothing imports cmd", path, target)
			}
		}
	}
}

// The supervisor is a program of its own: what others want of it they ask of its
// client.
func TestOnlyItsProgramIsTheSupervisor(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if slices.Contains(p.Imports, module+"noded/shim") && path != "cmd/gnoded" {
			t.Errorf("%s imports noded/shim: only cmd/gnoded runs as a supervisor, others use noded/shim/client", path)
		}
	}
}

// Sigstore's library is as large as all else in a program that has it: one package knows it,
// and one program that package.
func TestOnlyTheReaderOfImagesKnowsSigstore(t *testing.T) {
	const checker = "oci/sign/keyless"
	found := false
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/sigstore/") {
				found = true
				if path != checker {
					t.Errorf("%s imports %s: only %s knows Sigstore's library", path, imported, checker)
				}
			}
			if imported == module+checker && path != "cmd/goci" {
				t.Errorf("%s imports %s: only cmd/goci checks keyless signatures", path, checker)
			}
		}
	}
	if !found {
		t.Errorf("%s imports nothing of Sigstore's: is it still there?", checker)
	}
}

// impure are the standard packages by which a clock, randomness or I/O would
// get into what must be a pure function.
var impure = []string{"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "io/ioutil", "log", "log/slog", "sync"}

func TestPureCoreStaysPure(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !within(path, "sched", "ctld/state") || within(path, "sched/sim") {
			continue
		}
		for _, imported := range p.Imports {
			for _, bad := range impure {
				if imported == bad {
					t.Errorf("%s imports %q: the same input must give the same answer on every machine", path, bad)
				}
			}
			first, _, _ := strings.Cut(imported, "/")
			if within(path, "sched") && strings.Contains(first, ".") && !strings.HasPrefix(imported, module) {
				t.Errorf("%s imports %s: sched needs the standard library only", path, imported)
			}
		}
	}
}

// numbersOfTime are all that a node's cores may name of package time: spans, which are
// numbers. They are told what time it is.
var numbersOfTime = []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}

// TestNodeCoresStayPure: a simulation can run what a node decides as it is.
func TestNodeCoresStayPure(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !within(path, "noded/job", "noded/lease", "noded/registry", "noded/supervise") {
			continue
		}
		for _, imported := range append(impure, "context", "google.golang.org/grpc") {
			if imported != "time" && slices.Contains(p.Imports, imported) {
				t.Errorf("%s imports %q: a node's decisions are pure", path, imported)
			}
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				selected, ok := n.(*ast.SelectorExpr)
				if of, named := selectedPackage(selected, ok); named && of == "time" && !slices.Contains(numbersOfTime, selected.Sel.Name) {
					t.Errorf("%s/%s uses time.%s: the shell says what time it is", path, name, selected.Sel.Name)
				}
				if _, spawns := n.(*ast.GoStmt); spawns {
					t.Errorf("%s/%s starts a goroutine", path, name)
				}
				return true
			})
		}
	}
}

// selectedPackage is the word before the dot, if that is one name.
func selectedPackage(selected *ast.SelectorExpr, ok bool) (name string, named bool) {
	if !ok {
		return "", false
	}
	of, named := selected.X.(*ast.Ident)
	if !named {
		return "", false
	}
	return of.Name, true
}

func TestEveryPackageOpensWithItsContract(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 || strings.Contains(p.ImportPath, "/proto/gleaner/") {
			continue
		}
		want := "Package " + p.Name
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.Dir)
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: the package comment must begin with %q and say what the package promises", p.ImportPath, want)
		}
	}
}
