package pid1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

const dirVariable = "GLEANER_TEST_PID1_DIR"

// The test binary is also process 1, and the launcher of tasks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == taskWord {
		os.Exit(taskMain(os.Args[2:]))
	}
	if dir := os.Getenv(dirVariable); dir != "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, "mount /proc:", err)
			os.Exit(exitSetup)
		}
		_, config, err := ReadOrders(os.NewFile(OrdersFd, "orders"))
		status := exitSetup
		if err == nil {
			status, err = Run(dir, config, os.NewFile(ReadyFd, "ready"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitSetup)
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// letAll is a filter that allows everything: these tests do not put it on.
var letAll = &Filter{Program: []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}}

// job is a process 1 in a PID namespace of its own.
type job struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd

	namespace string // of its processes
}

func start(t *testing.T, config *Config) *job {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes a PID namespace")
	}
	j := &job{t: t, dir: t.TempDir()}
	if b := config.Batch; b != nil {
		b.Stdout = j.file("out", "")
		b.Cwd, b.Umask = step.Bytes(j.dir), 0o27
		b.Env = append(b.Env, "PATH=/usr/bin:/bin")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	orders, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer orders.Close()
	go func() {
		_ = WriteOrders(ours, letAll.Encode(), config)
		ours.Close()
	}()
	j.cmd = exec.Command("/proc/self/exe")
	// The race detector's programs sleep a second before they exit.
	j.cmd.Env = []string{dirVariable + "=" + j.dir, "GORACE=atexit_sleep_ms=0"}
	j.cmd.Stderr = os.Stderr
	j.cmd.ExtraFiles = []*os.File{write, orders}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.cmd.Process.Kill(); _ = j.cmd.Wait() })
	write.Close()
	_ = read.SetReadDeadline(time.Now().Add(prototest.Patience))
	if n, err := read.Read(make([]byte, 2)); n != 1 {
		t.Fatalf("not ready: %d bytes, %v", n, err)
	}
	// Open, or another namespace could get its number after its end.
	namespace := fmt.Sprintf("/proc/%d/ns/pid", j.cmd.Process.Pid)
	held, err := os.Open(namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	if j.namespace, err = os.Readlink(namespace); err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *job) file(name, content string) string {
	path := filepath.Join(j.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		j.t.Fatal(err)
	}
	return path
}

func (j *job) read(name string) string {
	data, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		j.t.Fatal(err)
	}
	return string(data)
}

// end waits for process 1 and answers its status and exit.json.
func (j *job) end() (int, Exit) {
	j.t.Helper()
	timer := time.AfterFunc(prototest.Patience, func() { _ = j.cmd.Process.Kill() })
	_ = j.cmd.Wait()
	if !timer.Stop() {
		j.t.Fatalf("process 1 did not end within %v", prototest.Patience)
	}
	var exit Exit
	if err := json.Unmarshal([]byte(j.read(ExitFile)), &exit); err != nil {
		j.t.Fatal(err)
	}
	return j.cmd.ProcessState.ExitCode(), exit
}

func (j *job) dial() *step.Client {
	j.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(j.dir, StepSocket))
	if err != nil {
		j.t.Fatal(err)
	}
	client := step.NewClient(conn)
	j.t.Cleanup(func() { client.Close() })
	return client
}

func shell(script string) *Config {
	return &Config{Batch: &Batch{Argv: step.Strings{"/bin/sh", "-c", script}}}
}

func launchOf(argv []string, ranks ...uint32) *step.Launch {
	l := &step.Launch{
		Step: 3, Argv: argv, Env: step.Strings{"PATH=/usr/bin:/bin", "FROM=grun", "SLURM_NODEID=9"},
		Cwd: "/", Input: step.InputNone, Umask: 0o77,
	}
	for i, rank := range ranks {
		l.Tasks = append(l.Tasks, step.Task{Rank: rank, Local: uint32(i)})
	}
	return l
}

// run launches and collects until Done: output by rank (both streams), exits
// by rank.
func run(t *testing.T, client *step.Client, launch *step.Launch) (map[uint32]string, map[uint32]step.Exited, error) {
	t.Helper()
	if err := client.Launch(launch); err != nil {
		t.Fatal(err)
	}
	return collect(t, client)
}

func collect(t *testing.T, client *step.Client) (map[uint32]string, map[uint32]step.Exited, error) {
	t.Helper()
	out, exits := map[uint32]string{}, map[uint32]step.Exited{}
	for {
		m, err := client.Next()
		if err != nil {
			return out, exits, err
		}
		switch m := m.(type) {
		case *step.Output:
			out[m.Rank] += string(m.Data)
		case *step.Exited:
			exits[m.Rank] = *m
		case *step.Failed:
			return out, exits, errors.New(m.Text)
		case *step.Done:
			return out, exits, nil
		}
	}
}

func TestStep(t *testing.T) {
	j := start(t, &Config{StepEnv: step.Strings{"SLURM_NODEID=1", "SLURMD_NODENAME=n2"}})
	script := `echo $FROM $SLURM_NODEID $SLURMD_NODENAME $SLURM_PROCID $SLURM_LOCALID $SLURM_GTIDS ` +
		`$SLURM_STEP_ID $GLEANER_PROCID $((SLURM_TASK_PID == $$)) $((GLEANER_TASK_PID == $$)) $(umask); exit $SLURM_PROCID`
	out, exits, err := run(t, j.dial(), launchOf([]string{"sh", "-c", script}, 4, 5))
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint32]string{4: "grun 1 n2 4 0 4,5 3 4 1 1 0077\n", 5: "grun 1 n2 5 1 4,5 3 5 1 1 0077\n"}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("output %v\nwant   %v", out, want)
	}
	if exits[4].Code != 4 || exits[5].Code != 5 {
		t.Errorf("exits %+v", exits)
	}
}

func TestStepFails(t *testing.T) {
	j := start(t, &Config{})
	for argv0, text := range map[string]string{
		"nonexistent":  "execve(): nonexistent: No such file or directory",
		"/nonexistent": "execve(): /nonexistent: No such file or directory",
		"/etc/passwd":  "execve(): /etc/passwd: Permission denied",
	} {
		if _, _, err := run(t, j.dial(), launchOf([]string{argv0}, 0, 1)); err == nil || err.Error() != text {
			t.Errorf("%s: %v, want %s", argv0, err, text)
		}
	}
	if _, err := j.dial().Allocate(&grant.Request{}, func() {}); err == nil {
		t.Error("a node without the batch script granted a step")
	}
}

func TestStepInput(t *testing.T) {
	j := start(t, &Config{})
	client := j.dial()
	launch := launchOf([]string{"sh", "-c", "cat | cksum"}, 0, 1)
	launch.Input = step.InputAll
	if err := client.Launch(launch); err != nil {
		t.Fatal(err)
	}
	go func() {
		data := []byte(strings.Repeat("0123456789abcdef", 128<<10)) // eight windows
		_ = client.SendInput(0, true, data)
		_ = client.EndInput(0, true)
	}()
	out, _, err := collect(t, client)
	if err != nil || out[0] != out[1] || !strings.HasSuffix(out[0], " 2097152\n") {
		t.Errorf("%v %v", out, err)
	}

	client = j.dial()
	launch = launchOf([]string{"wc", "-c"}, 0, 1)
	launch.Input, launch.InputTask = step.InputTask, 1
	if err := client.Launch(launch); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.SendInput(1, false, []byte("four")), client.EndInput(1, false)); err != nil {
		t.Fatal(err)
	}
	if out, _, err = collect(t, client); err != nil || out[0] != "0\n" || out[1] != "4\n" {
		t.Errorf("%v %v", out, err)
	}
}

// A task that never reads, and a client that floods it, do not hold up a
// signal on the same connection.
func TestSignalPassesInput(t *testing.T) {
	j := start(t, &Config{})
	client := j.dial()
	launch := launchOf([]string{"sleep", "1000"}, 0)
	launch.Input = step.InputAll
	if err := client.Launch(launch); err != nil {
		t.Fatal(err)
	}
	go func() { _ = client.SendInput(0, true, make([]byte, 4<<20)) }()
	time.Sleep(50 * time.Millisecond)
	if err := client.Signal(15, step.ScopeStep, 3); err != nil {
		t.Fatal(err)
	}
	if _, exits, err := collect(t, client); err != nil || exits[0].Signal != 15 {
		t.Errorf("%+v, %v", exits, err)
	}
}

func TestSignalScopes(t *testing.T) {
	j := start(t, shell(`exec 2>/dev/null; trap 'echo batch' USR1; echo armed; while :; do sleep 0.02; done`))
	client := j.dial()
	launch := launchOf([]string{"sh", "-c", `exec 2>/dev/null; trap 'echo step' USR1; echo ready; while :; do sleep 0.02; done`}, 0)
	if err := client.Launch(launch); err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		for {
			m, err := client.Next()
			if err != nil {
				t.Fatal(err)
			}
			if o, ok := m.(*step.Output); ok {
				if string(o.Data) != want {
					t.Errorf("step said %q, want %q", o.Data, want)
				}
				return
			}
		}
	}
	batchLines := func(n int) {
		t.Helper()
		want := "armed\n" + strings.Repeat("batch\n", n)
		for deadline := time.Now().Add(prototest.Patience); j.read("out") != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("batch said %q, want %q", j.read("out"), want)
			}
		}
	}
	next("ready\n")
	batchLines(0)
	other := j.dial()
	signal := func(scope step.Scope, number uint32) error { return other.Signal(10, scope, number) }
	for _, scope := range []step.Scope{step.ScopeBatch, step.ScopeAll, step.ScopeSteps, step.ScopeStep} {
		if err := signal(scope, 3); err != nil {
			t.Fatalf("%s: %v", scope, err)
		}
		if scope == step.ScopeBatch {
			batchLines(1)
		} else {
			next("step\n")
		}
	}
	batchLines(2)
	if err := signal(step.ScopeStep, 4); err == nil {
		t.Error("a step that does not exist was signalled")
	}
}

// The end of the connection is the end of the tasks; of the batch script, of
// all; and orphans are buried.
func TestEnds(t *testing.T) {
	j := start(t, shell(`while [ ! -e end ]; do sleep 0.02; done`))
	gone := j.dial()
	if err := gone.Launch(launchOf([]string{"sh", "-c", "trap '' TERM HUP; echo x; exec sleep 1001"}, 0)); err != nil {
		t.Fatal(err)
	}
	for m := step.Message(nil); ; {
		var err error
		if m, err = gone.Next(); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.(*step.Output); ok {
			break
		}
	}
	for deadline := time.Now().Add(prototest.Patience); !slices.Contains(j.commands(), "sleep 1001"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the task does not run")
		}
	}
	gone.Close()
	for deadline := time.Now().Add(prototest.Patience); slices.Contains(j.commands(), "sleep 1001"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the task outlives its client")
		}
	}
	held := j.dial()
	out, exits, err := run(t, held, launchOf([]string{"sh", "-c", "setsid sleep 1002 & echo left"}, 0))
	if err != nil || out[0] != "left\n" || exits[0].Code != 0 {
		t.Errorf("a task that left a process behind: %v %+v %v", out, exits, err)
	}
	stays := j.dial()
	if err := stays.Launch(launchOf([]string{"sleep", "1003"}, 0)); err != nil {
		t.Fatal(err)
	}
	j.file("end", "")
	if status, _ := j.end(); status != 0 {
		t.Errorf("status %d", status)
	}
	if _, _, err := collect(t, stays); !errors.Is(err, step.ErrClosed) {
		t.Errorf("the step ended with %v", err)
	}
	if left := j.commands(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// commands lists the command lines of the sleeps in this job's PID namespace:
// other tests have theirs.
func (j *job) commands() []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if namespace, err := os.Readlink(process + "/ns/pid"); err != nil || namespace != j.namespace {
			continue
		}
		data, _ := os.ReadFile(process + "/cmdline")
		line := strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " "))
		if strings.HasPrefix(line, "sleep 100") {
			found = append(found, line)
		}
	}
	return found
}
