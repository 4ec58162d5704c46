package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestMain lets this test program be the daemon and its supervisors. Inside
// containers it is "init", which package container answers by itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == client.Word {
		exitWith(shim.Main(os.Args[2]))
	}
	// What a test answers late, or not at all, ends no session.
	connectDeadline, registerDeadline, mostPatience = patience, patience, patience
	if len(os.Args) == 3 && os.Args[1] == "daemon" {
		exitWith(testDaemon(os.Args[2]))
	}
	os.Exit(m.Run())
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func testDaemon(configPath string) error {
	config, err := LoadConfig(configPath)
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return Run(ctx, config, executable, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// realNode is a daemon in a process of its own, with real supervisors,
// containers and control groups, under a controller that the test plays.
type realNode struct {
	t          *testing.T
	directory  string
	configPath string
	config     Config
	controller *fakeController
	daemon     *exec.Cmd
}

func newRealNode(t *testing.T) *realNode {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: runs real containers")
	}
	if testing.Short() {
		t.Skip("left out with -short: real containers take long under the race detector, which sees nothing of them")
	}
	directory, err := os.MkdirTemp("", "noded")
	if err != nil {
		t.Fatal(err)
	}
	n := &realNode{t: t, directory: directory, configPath: filepath.Join(directory, "gnoded.toml")}
	ginit := filepath.Join(directory, "ginit")
	build := exec.Command("go", "build", "-o", ginit, "../cmd/ginit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build ginit: %v\n%s", err, output)
	}
	for _, name := range []string{"work", "dev"} {
		n.must(os.Mkdir(filepath.Join(directory, name), 0o777))
		n.must(os.Chmod(filepath.Join(directory, name), 0o777))
	}
	n.must(os.Chmod(directory, 0o755))
	text := fmt.Sprintf("name = 'n1'\ncontrollers = ['unix://%[1]s/c.sock']\nstate_dir = '%[1]s/state'\nginit = '%[1]s/ginit'\n"+
		"cpus = 64\ncgroup_parent = '/gleaner-noded-real-%[2]d/n1'\n", directory, os.Getpid())
	for i := range 2 {
		path := fmt.Sprintf("%s/dev/gpu%d", directory, i)
		// Virtual terminals that nobody uses; opening them does nothing.
		n.must(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(4, uint32(60+i)))))
		n.must(os.Chmod(path, 0o666))
		text += fmt.Sprintf("[[gpu]]\nid = 'g%d'\nmodel = 'standin'\npath = '%s'\n", i, path)
	}
	n.must(os.WriteFile(n.configPath, []byte(text), 0o644))
	n.config, err = LoadConfig(n.configPath)
	n.must(err)
	n.controller = startController(t, filepath.Join(directory, "c.sock"))
	t.Cleanup(n.cleanUp)
	return n
}

func (n *realNode) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *realNode) cleanUp() {
	n.killDaemon()
	if n.t.Failed() {
		for _, name := range n.allocs() {
			log, _ := os.ReadFile(filepath.Join(n.config.StateDir, "jobs", name, "shim.log"))
			n.t.Logf("shim.log of %s:\n%s", name, log)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := StopJobs(ctx, n.config, slog.New(slog.DiscardHandler)); err != nil {
		n.t.Errorf("stop-jobs left something in %s: %v", n.directory, err)
		return
	}
	_ = os.RemoveAll(n.config.Checkpoint.Store)
	for _, name := range []string{"state/noded.lock", "state/syscalls.bpf", "state/syscalls-nested.bpf", "state", "dev/gpu0", "dev/gpu1", "dev", "gnoded.toml", "ginit", "c.sock"} {
		_ = os.Remove(filepath.Join(n.directory, name))
	}
	// Nothing was ever mounted below work on the host.
	_ = os.RemoveAll(filepath.Join(n.directory, "work"))
	if err := os.Remove(n.directory); err != nil {
		n.t.Errorf("left behind: %v", err)
	}
}

func (n *realNode) startDaemon() *fakeSession {
	n.t.Helper()
	executable, err := os.Executable()
	n.must(err)
	n.daemon = exec.Command(executable, "daemon", n.configPath)
	n.daemon.Stderr = os.Stderr
	n.must(n.daemon.Start())
	return n.controller.next()
}

func (n *realNode) killDaemon() {
	if n.daemon != nil {
		_ = n.daemon.Process.Kill()
		_ = n.daemon.Wait()
		n.daemon = nil
	}
}

func (n *realNode) order(job uint32, script string, gpus ...string) *pb.StartAlloc {
	work := filepath.Join(n.directory, "work")
	return &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: job, Epoch: 1}, Id: &pb.JobId{Job: job}, Node: "n1", BatchHost: "n1",
		Spec: &pb.JobSpec{
			Name: "test", Script: []byte("#!/bin/sh\n" + script + "\n"), WorkDirectory: work,
			Environment: []string{"PATH=/usr/bin:/bin"}, Umask: 0o022,
		},
		Owner: &pb.Identity{
			Uid: 65534, Gid: 65534, Groups: []uint32{65534}, User: "nobody", Group: "nogroup",
			Home: "/nonexistent", Shell: "/bin/sh",
		},
		Allocation: []*pb.NodeAllocation{{
			Node: "n1", CpuIds: []uint32{job % 64}, MemoryBytes: 64 << 20, Devices: devices(gpus...), Tasks: 1,
		}},
		Partition: "main", TimeLimitS: 600, KillWaitS: 1, LeaseAction: "run-on", NodeAddresses: []string{"127.0.0.1"},
	}
}

func (n *realNode) output(job uint32) string {
	text, err := os.ReadFile(filepath.Join(n.directory, "work", fmt.Sprintf("slurm-%d.out", job)))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// allocations answers the names in the directory of allocations.
func (n *realNode) allocs() []string {
	entries, _ := os.ReadDir(filepath.Join(n.config.StateDir, "jobs"))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestRealDaemonIsKilled: 20 jobs run while their daemon is killed with
// SIGKILL; the next daemon reports each end with its own exit code.
func TestRealDaemonIsKilled(t *testing.T) {
	n := newRealNode(t)
	s := n.startDaemon()
	const jobs = 20
	// The jobs wait for this file, so that all outlive the daemon.
	gate := filepath.Join(n.directory, "work", "gate")
	for job := uint32(1); job <= jobs; job++ {
		s.start(n.order(job, fmt.Sprintf("while ! test -e %s; do sleep 0.05; done; exit %d", gate, job)))
	}
	for range jobs {
		s.ready()
	}
	n.killDaemon()
	s = n.startDaemon()
	if len(s.register.Running) != jobs {
		t.Errorf("the new daemon found %d allocations, want %d", len(s.register.Running), jobs)
	}
	n.must(os.WriteFile(gate, nil, 0o644))
	ended := map[uint32]*pb.AllocEnded{}
	for len(ended) < jobs {
		got := s.ended()
		ended[got.Alloc.Job] = got
		s.acknowledge(got.Alloc)
	}
	for job, got := range ended {
		if got.Cause != pb.EndCause_END_CAUSE_EXITED || got.ExitCode != job || got.StartMs == 0 {
			t.Errorf("job %d: %v; output %q", job, got, n.output(job))
		}
	}
	eventually(t, "all allocations are forgotten", func() bool { return len(n.allocs()) == 0 })
}

// TestRealSupervisorIsKilled: the job dies with its supervisor, is reported,
// and leaves nothing.
func TestRealSupervisorIsKilled(t *testing.T) {
	n := newRealNode(t)
	s := n.startDaemon()
	order := n.order(1, "sleep 600")
	s.start(order)
	s.ready()
	group := n.config.CgroupParent + "/1.1"
	supervisor := supervisorOf(t, filepath.Join(n.config.StateDir, "jobs", "1.1"))
	n.must(unix.Kill(supervisor, unix.SIGKILL))
	got := s.ended()
	if got.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		t.Errorf("ended: %v", got)
	}
	if _, err := cgroup.Open(group); !errors.Is(err, cgroup.ErrNotFound) {
		t.Errorf("reported while its group is there: %v", err)
	}
	s.acknowledge(order.Alloc)
	eventually(t, "the allocation is forgotten", func() bool { return len(n.allocs()) == 0 })
}

// supervisorOf finds the process that was started as "PROGRAM shim DIRECTORY".
func supervisorOf(t *testing.T, directory string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		var pid int
		if _, scanErr := fmt.Sscan(entry.Name(), &pid); err != nil || scanErr != nil {
			continue
		}
		if string(line) == mustExecutable(t)+"\x00"+client.Word+"\x00"+directory+"\x00" {
			return pid
		}
	}
	t.Fatalf("no supervisor of %s", directory)
	return 0
}

func mustExecutable(t *testing.T) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return executable
}

// TestRealGPU: a job opens the GPU it was given and no other.
func TestRealGPU(t *testing.T) {
	n := newRealNode(t)
	s := n.startDaemon()
	// The other GPU's file lies in the work directory too, under another name.
	foreign := filepath.Join(n.directory, "work", "foreign")
	n.must(unix.Mknod(foreign, unix.S_IFCHR|0o666, int(unix.Mkdev(4, 60))))
	n.must(os.Chmod(foreign, 0o666))
	s.start(n.order(1, `( exec 3<>/dev/gpu1 ) || exit 1
test -e /dev/gpu0 && exit 2
( exec 3<>foreign ) 2>&1 | grep -i "not permitted" || exit 3`, "g1"))
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_EXITED || got.ExitCode != 0 {
		t.Errorf("ended: %v; output %q", got, n.output(1))
	}
}

// TestRealStopJobs: jobs continue when the daemon is told to stop, and stop-jobs
// leaves nothing of them.
func TestRealStopJobs(t *testing.T) {
	n := newRealNode(t)
	s := n.startDaemon()
	for job := uint32(1); job <= 3; job++ {
		s.start(n.order(job, "trap '' TERM; sleep 600 & sleep 600"))
	}
	for range 3 {
		s.ready()
	}
	n.must(n.daemon.Process.Signal(unix.SIGTERM))
	if err := n.daemon.Wait(); err != nil {
		t.Errorf("the daemon's end: %v", err)
	}
	n.daemon = nil
	g, err := cgroup.Open(n.config.CgroupParent + "/2.1")
	n.must(err)
	if pids, err := g.Procs(); err != nil || len(pids) == 0 {
		t.Errorf("the jobs ended with the daemon: %v, %v", pids, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := StopJobs(ctx, n.config, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	if left := n.allocs(); len(left) != 0 {
		t.Errorf("directories are left: %v", left)
	}
	for parent := n.config.CgroupParent; parent != "/"; parent = filepath.Dir(parent) {
		if _, err := cgroup.Open(parent); !errors.Is(err, cgroup.ErrNotFound) {
			t.Errorf("cgroup %s is left: %v", parent, err)
		}
	}
}
