package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test program is its own helper process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		if err := Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == gpuWord {
		if err := onGPU(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the stand-in library, made once.
var built struct {
	once      sync.Once
	dir, path string
	err       error
}

func standinLibrary(t testing.TB) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("needs a C compiler, to make a stand-in for the driver's library: %v", err)
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "gleaner-standin-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "libcuda.so.1")
		out, err := exec.Command(compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o", built.path, "testdata/standin.c").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// patience is what a test waits for what has to come; hangs is after how long a
// driver hangs, where that is waited for.
const (
	patience = 2 * time.Minute
	hangs    = 2 * time.Second
)

// machine is one with the stand-in's driver and made-up processes.
type machine struct {
	t    testing.TB
	dir  string
	pids []int
	*Helper
}

// newMachine has processes of CUDA with these states.
func newMachine(t testing.TB, states ...State) *machine {
	t.Helper()
	library := standinLibrary(t)
	m := &machine{t: t, dir: t.TempDir()}
	for i, state := range states {
		m.add(100+i, state)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.Helper = NewHelper(Options{
		Command: []string{self, Word}, Library: library, Proc: filepath.Join(m.dir, "proc"),
		LockTimeout: 50 * time.Millisecond, CopyTimeout: 50 * time.Millisecond, AnswerTime: patience, StartTime: 30 * time.Second,
	})
	m.driver.environ = append(m.driver.environ, "STANDIN="+m.dir)
	t.Cleanup(func() {
		m.endHelpers()
		if wrong := m.read("wrong"); wrong != "" {
			t.Errorf("the driver was called wrongly:\n%s", wrong)
		}
	})
	return m
}

// endHelpers waits until none is left: what hangs was killed.
func (m *machine) endHelpers() {
	m.t.Helper()
	m.Close()
	for end := time.Now().Add(patience); m.driver.stray.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("%d helpers are left", m.driver.stray.Load())
		}
	}
}

func (m *machine) path(elements ...string) string {
	return filepath.Join(append([]string{m.dir}, elements...)...)
}

func (m *machine) write(text string, path ...string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(path...)), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(path...), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(path ...string) string {
	data, _ := os.ReadFile(m.path(path...))
	return string(data)
}

// process makes one in the made-up proc, without CUDA.
func (m *machine) process(pid int) {
	m.t.Helper()
	number := strconv.Itoa(pid)
	m.write(number+" (a ) name) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 "+strconv.Itoa(7000+pid)+" 0 0", "proc", number, "stat")
	m.write("Name:\tx\nNSpid:\t"+number+"\t"+strconv.Itoa(pid-90)+"\n", "proc", number, "status")
	m.write("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n", "proc", number, "maps")
	m.write("PATH=/bin\x00", "proc", number, "environ")
	if err := os.MkdirAll(m.path("proc", number, "fd"), 0o700); err != nil {
		m.t.Fatal(err)
	}
	m.open(pid, 0, "/dev/null")
	m.pids = append(m.pids, pid)
}

func (m *machine) open(pid, fd int, target string) {
	m.t.Helper()
	if err := os.Symlink(target, m.path("proc", strconv.Itoa(pid), "fd", strconv.Itoa(fd))); err != nil {
		m.t.Fatal(err)
	}
}

// add makes a process of CUDA.
func (m *machine) add(pid int, state State) {
	m.t.Helper()
	m.process(pid)
	m.open(pid, 5, "/dev/nvidiactl")
	m.open(pid, 6, "/dev/nvidia-uvm")
	m.set(pid, state)
}

func (m *machine) set(pid int, state State) {
	m.t.Helper()
	m.write(strconv.Itoa(int(state)), strconv.Itoa(pid))
}

// fault makes the driver misbehave: see testdata/standin.c.
func (m *machine) fault(lines ...string) {
	m.t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	if m.driver.margin = patience; strings.Contains(text, "hang") {
		m.driver.margin = hangs
	}
	m.write(text, "fault")
}

// reset forgets faults, and how often what was called.
func (m *machine) reset() {
	counts, _ := filepath.Glob(m.path("count.*"))
	for _, path := range append(counts, m.path("fault"), m.path("log")) {
		_ = os.Remove(path)
	}
}

// states are those of the processes that are there, by number.
func (m *machine) states() map[int]State {
	m.t.Helper()
	states := map[int]State{}
	for _, pid := range m.pids {
		if text := m.read(strconv.Itoa(pid)); text != "" {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				m.t.Fatal(err)
			}
			states[pid] = State(n)
		}
	}
	return states
}

// log is what the driver was asked to change, in order.
func (m *machine) log() string {
	return strings.ReplaceAll(strings.TrimSpace(m.read("log")), "\n", ", ")
}
