package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// initPath is ginit, built once for all tests.
var initPath string

// initVariable tells a test program that runs in a private mount namespace
// where ginit is.
const initVariable = "GLEANER_TEST_GINIT"

// examineWord makes the test program examine the machine by the configuration
// that follows, as gnoded would, and print the report.
const examineWord = "examine"

// wayOutWord makes the test program try the way out by the configuration that follows.
const wayOutWord = "way-out"

// The test program replaces gnoded: supervisor, trials, examination.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		var err error
		switch {
		case os.Args[1] == client.Word:
			err = shim.Main(os.Args[2])
		case os.Args[1] == "doctor" && os.Args[2] == TryWord:
			err = Try(os.Args[3], os.Args[4], os.Args[5:])
		case os.Args[1] == examineWord:
			err = json.NewEncoder(os.Stdout).Encode(examineFile(context.Background(), os.Args[2]))
		case os.Args[1] == wayOutWord:
			d := &doctor{options: Options{ConfigPath: os.Args[2]}, root: true}
			if read := d.readConfig(); read[0].Status != finding.OK {
				err = errors.New(read[0].Seen)
				break
			}
			err = json.NewEncoder(os.Stdout).Encode(d.checkWayOut(context.Background()))
		default:
			os.Exit(runTests(m))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// In an emulated machine everything takes long.
	patient, groupPatience = 2*prototest.Patience, prototest.Patience
	if initPath = os.Getenv(initVariable); initPath != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gleaner-ginit-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	initPath = filepath.Join(dir, "ginit")
	build := exec.Command("go", "build", "-o", initPath, "../../cmd/ginit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build ginit: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts, makes control groups and containers")
	}
}

// privately runs the test once more, in a process with a mount namespace of
// its own. It answers true there, and false to the test that has only to
// return.
func privately(t *testing.T) bool {
	t.Helper()
	needRoot(t)
	if os.Getenv(initVariable) != "" {
		must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		return true
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v")
	cmd.Env = append(os.Environ(), initVariable+"="+initPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return false
}

// tmpfs mounts a small file system, in a private namespace.
func tmpfs(t *testing.T, path string, flags uintptr, options string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
	must(t, unix.Mount("test", path, "tmpfs", flags, options))
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
}

// node is a configuration with a state directory and a control group of its
// own.
type node struct {
	t                        *testing.T
	dir, state, parent, init string
	more                     string // lines of the configuration
}

func newNode(t *testing.T) *node {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	n := &node{t: t, dir: dir, state: filepath.Join(dir, "state"), init: initPath,
		parent: fmt.Sprintf("/gleaner-doctor-test-%d/%s", os.Getpid(), strings.ToLower(t.Name()))}
	must(t, os.Mkdir(n.state, 0o711))
	t.Cleanup(n.wantNothingLeft)
	return n
}

func (n *node) write() string {
	path := filepath.Join(n.dir, "gnoded.toml")
	text := fmt.Sprintf("name = \"n1\"\nstate_dir = %q\nginit = %q\ncgroup_parent = %q\n%s\n", n.state, n.init, n.parent, n.more)
	must(n.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func examineFile(ctx context.Context, path string) finding.Report {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Examine(ctx, Options{ConfigPath: path, Executable: self})
}

func (n *node) examine() map[string]finding.Finding {
	n.t.Helper()
	return byCheck(n.t, examineFile(n.t.Context(), n.write()))
}

// examineAs examines in a child process that start has changed.
func (n *node) examineAs(change func(*exec.Cmd)) map[string]finding.Finding {
	n.t.Helper()
	self, err := os.Executable()
	must(n.t, err)
	cmd := exec.Command(self, examineWord, n.write())
	change(cmd)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(n.t, err)
	var report finding.Report
	must(n.t, json.Unmarshal(out[bytes.IndexByte(out, '{'):], &report))
	return byCheck(n.t, report)
}

func byCheck(t *testing.T, report finding.Report) map[string]finding.Finding {
	t.Helper()
	found := map[string]finding.Finding{}
	for _, f := range report.Findings {
		if _, twice := found[f.Check]; twice {
			t.Errorf("two findings of %q", f.Check)
		}
		if bad := f.Status == finding.Failed || f.Status == finding.Warning; bad != (f.Fix != "") || bad != (f.Means != "") || f.Seen == "" {
			t.Errorf("a finding without what it needs: %+v", f)
		}
		found[f.Check] = f
	}
	return found
}

// want checks one finding: its status, and words in all that it says.
func want(t *testing.T, found map[string]finding.Finding, check string, status finding.Status, words ...string) {
	t.Helper()
	f, ok := found[check]
	if !ok || f.Status != status {
		t.Errorf("%s: %+v, want %s", check, f, status)
		return
	}
	for _, word := range words {
		if !strings.Contains(f.Seen+"\n"+f.Means+"\n"+f.Fix, word) {
			t.Errorf("%s: %+v does not say %q", check, f, word)
		}
	}
}

// wantNothingLeft looks for traces of examinations.
func (n *node) wantNothingLeft() {
	t := n.t
	for _, dir := range []string{n.dir, n.state} {
		if found, _ := filepath.Glob(filepath.Join(dir, scratchPrefix+"*")); len(found) > 0 {
			t.Errorf("left: %v", found)
		}
	}
	for _, group := range []string{n.parent, filepath.Dir(n.parent)} {
		if _, err := cgroup.Open(group); err == nil {
			t.Errorf("left: cgroup %s", group)
			_ = cgroup.New(group, cgroup.Limits{}).Remove()
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Contains(string(mounts), n.dir+"/") {
		t.Errorf("left: a mount below %s\n%s", n.dir, mounts)
	}
}

// deadServer mounts a file system whose server never says a word.
func deadServer(t *testing.T, path string) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs /dev/fuse: %v", err)
	}
	must(t, os.MkdirAll(path, 0o755))
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse.Fd())
	if err := unix.Mount("dead", path, "fuse.dead", 0, options); err != nil {
		fuse.Close()
		t.Skipf("needs FUSE: %v", err)
	}
	t.Cleanup(func() {
		fuse.Close() // whoever waits for it gets an error
		must(t, unix.Unmount(path, unix.MNT_DETACH))
	})
}
