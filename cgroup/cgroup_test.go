package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is what a test waits for what has to come: it says nothing about
// speed.
const patience = 2 * time.Minute

// parent is the group below which this run of the tests makes all others.
var parent = fmt.Sprintf("/gleaner-cgroup-test-%d", os.Getpid())

func TestMain(m *testing.M) {
	if file := os.Getenv(roomFile); file != "" {
		os.Exit(answerRoom(file))
	}
	if file := os.Getenv(directFile); file != "" {
		os.Exit(writeDirectly(file))
	}
	code := m.Run()
	if os.Getuid() == 0 {
		g := New(parent, Limits{})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
			fmt.Fprintln(os.Stderr, "left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// create makes a group for one test and removes it afterwards.
func create(t *testing.T, limits Limits) *Group {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: creates control groups")
	}
	g := New(parent+"/"+strings.ReplaceAll(t.Name(), "/", "-"), limits)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	return g
}

// start runs a shell script inside g: the shell is moved into g before it
// reads the first line of the script.
func start(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read go; "+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	gate, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(gate, "go\n"); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func run(t *testing.T, g *Group, script string) (exitCode int) {
	t.Helper()
	cmd := start(t, g, script)
	_ = cmd.Wait()
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal()) // the shell itself may be the first victim
	}
	return cmd.ProcessState.ExitCode()
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func count(t *testing.T, g *Group) int {
	t.Helper()
	pids, err := g.Procs()
	if err != nil {
		t.Fatal(err)
	}
	return len(pids)
}

func TestPaths(t *testing.T) {
	for _, p := range []string{"", "/", "a/b", "/a/../b", "/a/", "//a", "/..", "/a\nb"} {
		g := New(p, Limits{})
		if g.Config() != nil {
			t.Errorf("%q: Config is not nil", p)
		}
		for name, call := range map[string]func() error{
			"Create":  g.Create,
			"Remove":  g.Remove,
			"Kill":    func() error { return g.Kill(context.Background()) },
			"Signal":  func() error { return g.Signal(0) },
			"Add":     func() error { return g.Add(os.Getpid()) },
			"List":    func() error { _, err := List(p); return err },
			"Prepare": func() error { _, err := Prepare(p); return err },
		} {
			if err := call(); !errors.Is(err, ErrBadPath) {
				t.Errorf("%s of %q: %v, want ErrBadPath", name, p, err)
			}
		}
	}
}

func TestFormatCPUs(t *testing.T) {
	for _, c := range []struct {
		ids  []int
		want string
	}{
		{nil, ""}, {[]int{0}, "0"}, {[]int{3, 1, 2}, "1-3"}, {[]int{0, 2, 2, 3, 8}, "0,2-3,8"},
	} {
		if got := formatCPUs(c.ids); got != c.want {
			t.Errorf("formatCPUs(%v) = %q, want %q", c.ids, got, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	limits := Limits{
		CPUs: []int{0, 1}, MemoryBytes: 1 << 30, Pids: 10, DenyOtherDevices: true,
		Devices: []Device{{'c', 195, 0, "wr"}},
	}
	c := New("/a/b", limits).Config()
	if c.Path != "/a/b" || c.CpusetCpus != "0-1" || c.CpuShares != 2048 || c.CpuWeight != 40 ||
		c.Memory != 1<<30 || *c.PidsLimit != 10 {
		t.Errorf("config is %+v, resources %+v", c, c.Resources)
	}
	if len(c.Devices) != 1 || c.Devices[0].CgroupString() != "c 195:0 rw" || !c.Devices[0].Allow {
		t.Errorf("device rules are %+v", c.Devices)
	}
	// Machines that promise more CPUs than they have bind nobody, and share.
	if c := New("/a/b", Limits{CPUWeight: 3}).Config(); c.CpusetCpus != "" || c.CpuShares != 3072 || c.CpuWeight != 60 {
		t.Errorf("with a weight alone the resources are %+v", c.Resources)
	}
	open := New("/a/b", Limits{}).Config()
	if len(open.Devices) != 1 || open.Devices[0].CgroupString() != "a *:* rwm" {
		t.Errorf("without DenyOtherDevices the rules are %+v", open.Devices)
	}
}

func TestMissing(t *testing.T) {
	missing := "/gleaner-no-such-group"
	if _, err := Open(missing); !errors.Is(err, ErrNotFound) {
		t.Errorf("Open: %v, want ErrNotFound", err)
	}
	g := New(missing, Limits{})
	if _, err := g.Procs(); !errors.Is(err, ErrNotFound) {
		t.Errorf("Procs: %v, want ErrNotFound", err)
	}
	if _, err := g.Usage(); !errors.Is(err, ErrNotFound) {
		t.Errorf("Usage: %v, want ErrNotFound", err)
	}
	if err := g.Kill(context.Background()); err != nil {
		t.Errorf("Kill: %v", err)
	}
	if err := g.Remove(); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if names, err := List(missing); err != nil || len(names) > 0 {
		t.Errorf("List: %v, %v", names, err)
	}
}

func TestCreateListRemove(t *testing.T) {
	g := create(t, Limits{})
	if _, err := Open(g.Path()); err != nil {
		t.Fatal(err)
	}
	names, err := List(parent)
	if err != nil || !slices.Contains(names, t.Name()) {
		t.Fatalf("List: %v, %v", names, err)
	}
	above := New(parent, Limits{})
	if removed, err := above.RemoveEmpty(); err != nil || removed {
		t.Fatalf("RemoveEmpty with a child: %v, %v", removed, err)
	}
	start(t, g, "sleep 600")
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Fatalf("Remove with a process: %v, want ErrBusy", err)
	}
	if err := g.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(g.Path()); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Open after Remove: %v", err)
	}
}

func TestSignal(t *testing.T) {
	g := create(t, Limits{})
	file := filepath.Join(t.TempDir(), "ready")
	cmd := start(t, g, `trap 'exit 7' USR1; touch `+file+`; while :; do sleep 0.01; done`)
	other := start(t, g, `exec sleep 1000`)
	eventually(t, "trap is set", func() bool { _, err := os.Stat(file); return err == nil })
	// Only those that are wanted.
	if err := g.SignalThose(unix.SIGKILL, func(pid int) bool { return pid == other.Process.Pid }); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if status := other.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
		t.Fatalf("the other: %v, want killed", other.ProcessState)
	}
	if err := g.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Fatalf("exit code %d, want 7", code)
	}
}

func TestFreezeThenKill(t *testing.T) {
	g := create(t, Limits{})
	counted := counting(t, g)
	eventually(t, "it counts", func() bool { return counted() > 4 })
	if err := g.Freeze(soon(t)); err != nil {
		t.Fatal(err)
	}
	frozen := counted()
	time.Sleep(100 * time.Millisecond)
	if now := counted(); now != frozen {
		t.Fatalf("counted from %d to %d while frozen", frozen, now)
	}
	if err := g.Thaw(soon(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it counts again", func() bool { return counted() > frozen+4 })
	if err := g.Freeze(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, g); n != 0 {
		t.Fatalf("%d processes after Kill", n)
	}
}

func TestKillForkingTree(t *testing.T) {
	g := create(t, Limits{Pids: 100})
	start(t, g, `f() { while :; do ( sleep 0.01 & ) ; done; }; f & f & f & f & wait`)
	eventually(t, "the tree grows", func() bool { return count(t, g) > 5 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestKillSaysWhatSurvives(t *testing.T) {
	g := create(t, Limits{})
	start(t, g, "sleep 600")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// A cancelled context still gets one pass, and the error says so unless
	// that pass was enough.
	if err := g.Kill(ctx); err != nil && (!errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled)) {
		t.Fatalf("Kill: %v", err)
	}
}

// Only the process that is too large shall be killed. While a slow kernel takes its
// memory back it may choose another one, so the shell may not be chosen.
const (
	spareTheShell = "echo -1000 >/proc/self/oom_score_adj\n"
	tooLarge      = `head -c 24000000 /dev/zero | sh -c 'echo 0 >/proc/self/oom_score_adj; exec tail -c 24000000 >/dev/null'`
)

func TestMemoryLimit(t *testing.T) {
	const limit = 16 << 20
	g := create(t, Limits{MemoryBytes: limit})
	requireController(t, "memory")
	if code := run(t, g, spareTheShell+`for i in 1 2; do `+tooLarge+`; done; exit $((100 + $?))`); code != 237 {
		t.Errorf("exit code %d, want 100 + 137: killed at the memory limit", code)
	}
	usage, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if usage.OOMKills != 2 {
		t.Errorf("%d OOM kills, want 2", usage.OOMKills)
	}
	if usage.PeakMemoryBytes > limit || usage.PeakMemoryBytes < limit*95/100 {
		t.Errorf("peak is %d bytes, want within 5 %% of the limit %d", usage.PeakMemoryBytes, limit)
	}
}

func TestUsage(t *testing.T) {
	g := create(t, Limits{})
	if code := run(t, g, `i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done`); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	usage, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if usage.CPUNs < uint64(time.Millisecond) || usage.CPUNs > uint64(time.Minute) {
		t.Errorf("CPU time %v", time.Duration(usage.CPUNs))
	}
	if usage.OOMKills != 0 {
		t.Errorf("%d OOM kills, want none", usage.OOMKills)
	}
}

func TestPidsLimit(t *testing.T) {
	g := create(t, Limits{Pids: 3})
	requireController(t, "pids")
	if code := run(t, g, `sleep 600 & sleep 600 & sleep 600 & sleep 600 & kill %1 %2; exit 0`); code == 0 {
		t.Error("four children and a shell ran under a limit of 3")
	}
}

func TestCPUs(t *testing.T) {
	g := create(t, Limits{CPUs: []int{0}})
	requireController(t, "cpuset")
	if code := run(t, g, `test "$(grep Cpus_allowed_list /proc/self/status | tr -d '\t ')" = Cpus_allowed_list:0`); code != 0 {
		t.Error("the process may run on other CPUs than 0")
	}
}

// TestDevices opens device files inside groups that allow some of them. The
// numbers belong to the console's screens, and need no driver to be denied.
func TestDevices(t *testing.T) {
	null := Device{'c', 1, 3, "rw"}
	directory := t.TempDir()
	node := func(minor uint32) string {
		if os.Getuid() != 0 {
			t.Skip("needs root: makes device files")
		}
		name := filepath.Join(directory, fmt.Sprint("dev", minor))
		if err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(7, minor))); err != nil {
			t.Fatal(err)
		}
		return name
	}
	mine, other := node(1), node(2)
	// The shell's message tells EPERM from ENXIO, which an absent driver gives.
	denied := func(g *Group, name string) bool {
		return run(t, g, `LC_ALL=C; export LC_ALL; ( : < `+name+` ) 2>&1 | grep -q 'not permitted'`) == 0
	}
	g := create(t, Limits{DenyOtherDevices: true, Devices: []Device{null, {'c', 7, 1, "rw"}}})
	if denied(g, mine) {
		t.Error("the group's own device is denied")
	}
	if !denied(g, other) {
		t.Error("another device is not denied")
	}
	if run(t, g, `echo x > /dev/null`) != 0 {
		t.Error("/dev/null is denied")
	}
	free := New(g.Path()+"-free", Limits{})
	t.Cleanup(func() { _ = free.Remove() })
	if err := free.Create(); err != nil {
		t.Fatal(err)
	}
	if denied(free, other) {
		t.Error("denied without DenyOtherDevices")
	}
}

func TestDetect(t *testing.T) {
	info, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if info.Version != V1 && info.Version != V2 {
		t.Errorf("version %q", info.Version)
	}
	if !slices.Contains(info.Controllers, "devices") {
		t.Errorf("no devices among %v", info.Controllers)
	}
	t.Logf("%+v", info)
}

func requireController(t *testing.T, name string) {
	t.Helper()
	info, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(info.Controllers, name) {
		t.Skipf("needs the %s controller: this machine has %v", name, info.Controllers)
	}
}

// TestLeaderHasEnded: a process that has ended, but whose number its group still
// has, is gone, whatever the kernel calls that.
func TestLeaderHasEnded(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 600 & exit 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if fd, err := unix.PidfdOpen(cmd.Process.Pid, 0); !ended(err) {
		unix.Close(fd)
		t.Errorf("it is not gone: %v", err)
	}
}
