package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// The two machines of the port scan: network namespaces with one cable.
const (
	controllerAddress4, nodeAddress4 = "10.99.0.1", "10.99.0.2"
	controllerAddress6, nodeAddress6 = "fd00:99::1", "fd00:99::2"
)

// TestPortScan: nothing listens on a machine that runs jobs. A real gnoded, in
// a network namespace of its own, with a job and a step running, reaches its
// controller in another one over TLS; the controller's side then tries all
// 65,535 TCP ports, and the kernel's tables of the node's side are read.
func TestPortScan(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces and runs real containers")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s (Debian's iproute2, util-linux): %v", tool, err)
		}
	}
	m := cable(t)
	seesDecoys(t, m)
	m.startDaemons(t)
	job := m.gleaner(t, "gsubmit", "--parsable", "--uid=alice", "--chdir=/", "--output=/dev/null", "--wrap", "grun sleep 1000")
	m.await(t, "the step runs", func() bool { return strings.Contains(m.runs(t), "sleep\x001000") })

	for name, found := range map[string][]string{"node": listening(t, m.node), "node, scanned": m.scan(t)} {
		if len(found) > 0 {
			t.Errorf("%s: %s listens, or could take something in", name, strings.Join(found, "\n"))
		}
	}
	for _, path := range unixListeners(t, m.node) {
		if !ownSocket(path, m.dir) {
			t.Errorf("a unix socket listens at %q, outside gnoded's own directory", path)
		}
	}
	m.followLog(t, filepath.Join(m.dir, "node", "jobs", job+".1", "shim.log"), job, []string{"container is up"})
	m.gleaner(t, "gcancel", job)
	m.await(t, "the job is over", func() bool { return m.runs(t) == "" })
	m.followLog(t, m.logs["gctld"].Name(), job, []string{"request", "job starts", "start ordered", "allocation ended", "job ended"})
	m.followLog(t, m.logs["gnoded"].Name(), job, []string{"started the supervisor of an allocation", "an allocation has ended"})
}

var allocSocket = regexp.MustCompile(`^(/proc/self/fd/[0-9]+/(shim|job)\.sock|/run/gleaner/step\.sock)$`)

// ownSocket reports whether a socket is gnoded's or a job's own: supervisors name
// theirs from within the allocation's directory, process 1 from within the container.
func ownSocket(path, dir string) bool {
	return path == "/run/gleaner/gnoded.sock" || path == "/run/gleaner/agent.sock" || strings.HasPrefix(path, dir+"/") || allocSocket.MatchString(path)
}

// machines are the two namespaces, each held by a process, and what runs there.
type machines struct {
	dir, bin         string
	controller, node int // pids
	logs             map[string]*os.File
}

// cable makes the namespaces and joins them. They go with their processes.
func cable(t *testing.T) *machines {
	t.Helper()
	m := &machines{dir: t.TempDir(), bin: filepath.Join(os.Getenv(inNamespace), "bin"), logs: map[string]*os.File{}}
	if err := os.Chmod(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	hold := func() int {
		command := exec.Command("sleep", "900")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := prototest.StartTied(command); err != nil {
			t.Skipf("needs network namespaces: %v", err)
		}
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
		return command.Process.Pid
	}
	m.controller, m.node = hold(), hold()
	m.in(t, m.controller, "ip", "link", "add", "gl0", "type", "veth", "peer", "name", "gl0", "netns", strconv.Itoa(m.node))
	for pid, addresses := range map[int][]string{m.controller: {controllerAddress4 + "/24", controllerAddress6 + "/64"}, m.node: {nodeAddress4 + "/24", nodeAddress6 + "/64"}} {
		m.in(t, pid, "ip", "addr", "add", addresses[0], "dev", "gl0")
		if _, err := exec.Command("nsenter", netOf(pid), "ip", "addr", "add", addresses[1], "dev", "gl0", "nodad").CombinedOutput(); err != nil {
			t.Logf("no IPv6 here: %v", err)
		}
		m.in(t, pid, "ip", "link", "set", "gl0", "up")
		m.in(t, pid, "ip", "link", "set", "lo", "up")
	}
	return m
}

func netOf(pid int) string { return fmt.Sprintf("--net=/proc/%d/ns/net", pid) }

// in runs a program in a namespace.
func (m *machines) in(t *testing.T, pid int, words ...string) {
	t.Helper()
	if out, err := exec.Command("nsenter", append([]string{netOf(pid)}, words...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// start runs a daemon in a namespace until the test ends.
func (m *machines) start(t *testing.T, pid int, name string, words ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	m.logs[name] = log
	command := exec.Command("nsenter", append([]string{netOf(pid), filepath.Join(m.bin, name)}, words...)...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := prototest.StartTied(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("--- %s\n%s", name, text)
		}
	})
}

// startDaemons brings up the controller and the node.
func (m *machines) startDaemons(t *testing.T) {
	t.Helper()
	data := filepath.Join(m.dir, "ctl")
	m.start(t, m.controller, "gctld", "--data-dir", data, "--socket", filepath.Join(m.dir, "c.sock"), "--name", "c1", "--listen", controllerAddress4+":6817", "--log-format", "json", "--log-level", "debug")
	m.await(t, "the controller answers", func() bool { return m.try("gcontrol", "show", "config") == nil })
	if err := m.try("gctld", "cert", "--data-dir", data, "--node", "far", "--out", filepath.Join(m.dir, "far")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(m.dir, "far.toml")
	text := fmt.Sprintf("name = \"far\"\ncontrollers = [%q]\ntls_dir = %q\nstate_dir = %q\ncgroup_parent = \"/gleaner-portscan-%d/far\"\ndetect_gpus = false\nlog_format = \"json\"\n[container]\nbind = [%q]\n",
		controllerAddress4+":6817", filepath.Join(m.dir, "far"), filepath.Join(m.dir, "node"), os.Getpid(), m.bin)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after gnoded has ended
		if err := m.try("gnoded", "stop-jobs", "--config", config); err != nil {
			t.Error(err)
		}
	})
	m.start(t, m.node, "gnoded", "--config", config)
	m.await(t, "the node is there", func() bool {
		out, err := m.output("ginfo", "-h", "-N", "-o", "%N %T")
		return err == nil && strings.HasPrefix(out, "far idle")
	})
}

func (m *machines) output(program string, words ...string) (string, error) {
	command := exec.Command(filepath.Join(m.bin, program), words...)
	command.Dir = "/"
	command.Env = []string{"PATH=" + m.bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "GLEANER_CONTROLLER=unix://" + filepath.Join(m.dir, "c.sock")}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s", program, words, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (m *machines) try(program string, words ...string) error {
	_, err := m.output(program, words...)
	return err
}

func (m *machines) gleaner(t *testing.T, program string, words ...string) string {
	t.Helper()
	out, err := m.output(program, words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (m *machines) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience(60 * time.Second)); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// runs are the command lines of the job's processes, which are in the node's
// namespace: their network is the machine's.
func (m *machines) runs(t *testing.T) string {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.node))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, pid := range pids {
		command, _ := os.ReadFile(filepath.Join(pid, "cmdline"))
		if here, err := os.Readlink(filepath.Join(pid, "ns", "net")); err == nil && here == want && strings.HasPrefix(string(command), "sleep\x001000") {
			found = append(found, string(command))
		}
	}
	return strings.Join(found, " ")
}

// within runs f in a process's network namespace. The thread goes back to its
// own: if it ended, so would every daemon that was started from it.
func within(t *testing.T, pid int, f func() error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	other, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = unix.Setns(int(other.Fd()), unix.CLONE_NEWNET)
	if err == nil {
		err = f()
	}
	if err := errors.Join(err, unix.Setns(int(own.Fd()), unix.CLONE_NEWNET)); err != nil {
		t.Fatal(err)
	}
}

// scan connects to every TCP port of the node's machine, from the controller's.
func (m *machines) scan(t *testing.T) []string {
	t.Helper()
	var open []string
	within(t, m.controller, func() error {
		for port := 1; port <= 65535; port++ {
			four, six := &unix.SockaddrInet4{Port: port}, &unix.SockaddrInet6{Port: port}
			copy(four.Addr[:], net.ParseIP(nodeAddress4).To4())
			copy(six.Addr[:], net.ParseIP(nodeAddress6))
			for family, address := range map[int]unix.Sockaddr{unix.AF_INET: four, unix.AF_INET6: six} {
				err := error(unix.EINTR) // Go interrupts its threads
				for errors.Is(err, unix.EINTR) {
					err = connect(family, address)
				}
				if family == unix.AF_INET6 && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENETUNREACH)) {
					continue // a kernel without it
				}
				if !errors.Is(err, unix.ECONNREFUSED) {
					open = append(open, fmt.Sprintf("tcp port %d (family %d): %v", port, family, err))
				}
			}
			if len(open) > 20 {
				return nil
			}
		}
		return nil
	})
	return open
}

func connect(family int, address unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	return unix.Connect(fd, address)
}

// listening reads the kernel's tables of a namespace: TCP sockets that listen
// (state 0A), and every UDP or raw socket, which receives without listening.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "packet"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for _, line := range lines[1:] {
			if fields := strings.Fields(line); !strings.HasPrefix(table, "tcp") || len(fields) > 3 && fields[3] == "0A" {
				found = append(found, table+": "+line)
			}
		}
	}
	return found
}

// unixListeners are the names of the unix sockets of a namespace that listen
// or have an abstract name, which no permission guards.
func unixListeners(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		t.Fatal(err)
	}
	const accepts = 1 << 16 // __SO_ACCEPTCON
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		flags, _ := strconv.ParseUint(fields[3], 16, 32)
		if name := strings.Join(fields[7:], " "); flags&accepts != 0 || strings.HasPrefix(name, "@") {
			names = append(names, name)
		}
	}
	return names
}

// seesDecoys shows that the search finds what there is to find.
func seesDecoys(t *testing.T, m *machines) {
	t.Helper()
	within(t, m.node, func() error {
		tcp, err := net.Listen("tcp", nodeAddress4+":4711")
		if err != nil {
			return err
		}
		defer tcp.Close()
		udp, err := net.ListenPacket("udp", "127.0.0.1:4712")
		if err != nil {
			return err
		}
		defer udp.Close()
		abstract, err := net.Listen("unix", "@gleaner-decoy")
		if err != nil {
			return err
		}
		defer abstract.Close()
		open, tables := m.scan(t), listening(t, m.node)
		if len(open) != 1 || !strings.Contains(open[0], "port 4711 ") || len(tables) != 2 || !slices.Contains(unixListeners(t, m.node), "@gleaner-decoy") {
			return fmt.Errorf("the scan does not see what listens: %q %q", open, tables)
		}
		return nil
	})
	if left := listening(t, m.node); len(left) > 0 {
		t.Fatalf("the decoys are still there: %q", left)
	}
}

// followLog waits until a daemon has said all of a job's run, under the keys
// that every daemon has.
func (m *machines) followLog(t *testing.T, path, job string, messages []string) {
	t.Helper()
	m.await(t, path+" says all", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		said := make(map[string]bool)
		for line := range strings.Lines(string(text)) {
			var record struct {
				Message    string `json:"msg"`
				Job, Epoch json.Number
				RequestID  string `json:"request_id"`
				Node       string
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				return false // the last line is being written
			}
			request := record.Message == "request" && record.RequestID != ""
			ours := record.Message == "job starts" || record.Message == "job ended" || record.Node == "far"
			if record.Job.String() == job && (request || ours && record.Epoch == "1") {
				said[record.Message] = true
			}
		}
		return !slices.ContainsFunc(messages, func(message string) bool { return !said[message] })
	})
}
