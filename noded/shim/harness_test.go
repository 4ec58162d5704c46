package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// The tests run real supervisors and real containers, for users that are
// numbers only.
const (
	testUID, testGID = 4242, 4242
	testNode         = "n1"
)

var testGroups = []uint32{4242, 4243, 4244}

// initPath is ginit, built once for all tests.
var initPath string

// parent is the control group below which this run makes its own.
var parent = fmt.Sprintf("/gleaner-shim-test-%d", os.Getpid())

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == client.Word {
		if err := Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == client.FitsWord {
		if err := FitsMain(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && (os.Args[1] == cuda.Word || os.Args[1] == gpu.FactsWord) {
		if err := standinMain(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == bareWord {
		if err := bareMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if initPath = os.Getenv(initVariable); initPath != "" {
		return cleanly(m) // in a mount namespace of its own, see privately
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
	return cleanly(m)
}

// cleanly runs the tests and removes the control group above those of allocations.
func cleanly(m *testing.M) int {
	code := m.Run()
	removeStandin()
	if os.Getuid() == 0 {
		if removed, err := cgroup.New(parent, cgroup.Limits{}).RemoveEmpty(); err != nil || !removed {
			fmt.Fprintln(os.Stderr, "left behind: cgroup", parent, err)
			return 1
		}
	}
	return code
}

// bed is a state directory, and a user with a home, outside of what is
// private to containers.
type bed struct {
	t        testing.TB
	dir      string
	state    string
	home     string
	settings bundle.Settings
}

var lastJob atomic.Uint32

func newBed(t testing.TB) *bed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: starts containers")
	}
	dir, err := os.MkdirTemp("", "gleaner-shim-")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, dir: dir, state: filepath.Join(dir, "state"), home: filepath.Join(dir, "home")}
	t.Cleanup(func() {
		b.endAll()
		if err := remove.Tree(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(b.state, 0o700))
	must(t, os.Mkdir(b.home, 0o700))
	must(t, os.Chown(b.home, testUID, testGID))
	must(t, client.PrepareStateDir(b.state))
	b.settings = bundle.Settings{StateDir: b.state, Node: testNode, InitPath: initPath, CgroupParent: parent}
	return b
}

// endAll ends whatever a failed test has left running.
func (b *bed) endAll() {
	handles, damaged, err := client.List(b.state, parent)
	if err != nil {
		b.t.Error(err)
	}
	for _, d := range damaged {
		if _, err := d.Recover(context.Background()); err != nil {
			b.t.Error(err)
		}
		if err := d.Forget(); err != nil {
			b.t.Error(err)
		}
	}
	for _, h := range handles {
		if h.Alive() {
			if client, err := h.Client(); err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
				_, _ = client.End(ctx, &pb.EndAlloc{Alloc: h.Order().Alloc})
				cancel()
			}
			eventually(b.t, "the supervisor ends", func() bool { return !h.Alive() })
		}
		if _, err := h.Result(); err != nil {
			if _, err := h.Recover(context.Background()); err != nil {
				b.t.Error(err)
			}
		}
		if err := h.Forget(); err != nil {
			b.t.Error(err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	prototest.Eventually(t, what, condition)
}

// order is for one node and one script of the test's user.
func (b *bed) order(script string) *pb.StartAlloc {
	job := lastJob.Add(1)
	return &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: job, Epoch: 1}, Id: &pb.JobId{Job: job},
		Spec: &pb.JobSpec{
			Name: "test", Script: []byte("#!/bin/sh\n" + script + "\n"), WorkDirectory: b.home, Umask: 0o22,
			StandardOutput: "out", Environment: []string{"PATH=/usr/bin:/bin"},
		},
		Owner:      &pb.Identity{Uid: testUID, Gid: testGID, Groups: testGroups, User: "gleanertest", Group: "gleanertest", Home: b.home, Shell: "/bin/sh"},
		Allocation: []*pb.NodeAllocation{{Node: testNode, CpuIds: []uint32{0}, MemoryBytes: 512 << 20}},
		Node:       testNode, BatchHost: testNode, Partition: "main", TimeLimitS: spec.Unlimited, KillWaitS: 2,
		ClusterName: "test", LeaseAction: "run-on",
	}
}

// started is an allocation that was launched.
type started struct {
	*client.Handle
	b     *bed
	dir   bundle.Dir
	order *pb.StartAlloc
}

func (b *bed) follow(h *client.Handle) *started {
	return &started{h, b, bundle.Dir(h.Dir()), h.Order()}
}

func (b *bed) launch(order *pb.StartAlloc) *started {
	b.t.Helper()
	self, err := os.Executable()
	must(b.t, err)
	h, err := client.Launch(context.Background(), self, b.settings, order)
	must(b.t, err)
	return b.follow(h)
}

func (s *started) client() pb.ShimClient {
	s.b.t.Helper()
	client, err := s.Client()
	must(s.b.t, err)
	return client
}

// wait waits for the end and checks that nothing is left.
func (s *started) wait() *pb.AllocEnded {
	t := s.b.t
	t.Helper()
	var result *pb.AllocEnded
	eventually(t, "the allocation ends", func() (ended bool) {
		var err error
		result, err = s.Result()
		if err != nil && !s.Alive() {
			if result, err = s.Result(); err == nil {
				return true // it ended between the two looks
			}
			log, _ := os.ReadFile(s.dir.Path(bundle.LogFile))
			t.Fatalf("the supervisor died: %s", log)
		}
		return err == nil
	})
	eventually(t, "the supervisor exits", func() bool { return !s.Alive() })
	s.checkNothingLeft()
	if t.Failed() || result.Cause == pb.EndCause_END_CAUSE_NODE_FAULT {
		log, _ := os.ReadFile(s.dir.Path(bundle.LogFile))
		t.Logf("result %v\n%s", result, log)
	}
	return result
}

func (s *started) checkNothingLeft() {
	t := s.b.t
	t.Helper()
	if _, err := cgroup.Open(parent + "/" + s.dir.ID()); !errors.Is(err, cgroup.ErrNotFound) {
		t.Errorf("its control group is left: %v", err)
	}
	entries, err := os.ReadDir(string(s.dir))
	must(t, err)
	for _, entry := range entries {
		if !bundle.Kept(entry.Name()) {
			t.Errorf("left in the allocation's directory: %s", entry.Name())
		}
	}
}

func (s *started) ready() {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(s.b.t, err)
	event, err := stream.Recv()
	must(s.b.t, err)
	if event.GetReady() == nil {
		s.b.t.Fatalf("the first event is %v, not ready", event)
	}
}

func (b *bed) output() string {
	data, err := os.ReadFile(filepath.Join(b.home, "out"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// run runs a script to its end and answers the result and the output.
func (b *bed) run(script string) (*pb.AllocEnded, string) {
	b.t.Helper()
	return b.runOrder(b.order(script))
}

func (b *bed) runOrder(order *pb.StartAlloc) (*pb.AllocEnded, string) {
	b.t.Helper()
	result := b.launch(order).wait()
	return result, b.output()
}

func wantEnd(t testing.TB, result *pb.AllocEnded, cause pb.EndCause, code, signal uint32) {
	t.Helper()
	if result.Cause != cause || result.ExitCode != code || result.ExitSignal != signal {
		t.Errorf("ended %v %d:%d (%s), want %v %d:%d", result.Cause, result.ExitCode, result.ExitSignal, result.Detail, cause, code, signal)
	}
}

func wantExit(t testing.TB, result *pb.AllocEnded, code uint32) {
	t.Helper()
	wantEnd(t, result, pb.EndCause_END_CAUSE_EXITED, code, 0)
}

// probe is a program for use inside containers: it tries to open devices and
// reports the errno of each.
func (b *bed) probe() string {
	b.t.Helper()
	source := filepath.Join(b.dir, "probe.go")
	must(b.t, os.WriteFile(source, []byte(`package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func main() {
	for _, path := range os.Args[1:] {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		var errno syscall.Errno
		switch {
		case err == nil:
			f.Close()
			fmt.Println("ok")
		case errors.As(err, &errno):
			fmt.Println(int(errno))
		}
	}
}
`), 0o644))
	program := filepath.Join(b.home, "probe")
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.t.Fatalf("build probe: %v\n%s", err, out)
	}
	return program
}

// device makes a character device, or skips the test.
func device(t testing.TB, path string, major, minor uint32) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
		t.Skipf("needs mknod: %v", err)
	}
	must(t, os.Chmod(path, 0o666))
}

// hostOpens says whether the device can be opened at all, outside.
func hostOpens(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err == nil || errors.Is(err, syscall.ENXIO)
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func (s *started) removeGroup() error {
	return remove.Group(context.Background(), parent+"/"+s.dir.ID())
}

// sleeper is a process of the host's that sleeps until the test ends.
func sleeper(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd.Process.Pid
}

func groupOf(s *started) *cgroup.Group {
	return cgroup.New(parent+"/"+s.dir.ID(), cgroup.Limits{})
}

func endOrder(s *started) *pb.EndAlloc { return &pb.EndAlloc{Alloc: s.order.Alloc} }

func (s *started) checkGroupGone() {
	s.b.t.Helper()
	if _, err := cgroup.Open(parent + "/" + s.dir.ID()); !errors.Is(err, cgroup.ErrNotFound) {
		s.b.t.Errorf("its control group is left: %v", err)
	}
}

// noRace leaves a test out of the runs under the race detector, which are
// short: what it looks for does not depend on what runs at the same time.
func noRace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: it takes long, and shows the race detector nothing new")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
