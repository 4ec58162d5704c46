package scenario

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() {
	commands["counted"] = checkCounted
	commands["tidy"] = checkTidy
	commands["slowdisk"] = mountSlowDisk
	commands["othernode"] = startOtherNode
	commands["listen"] = listen
}

// checkCounted is `counted FILE`: the file holds the numbers from 1 on, each
// once and in its place, of which the last may be half written. What it should
// hold is waited for: it continues.
func checkCounted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: counted FILE")
	}
	began := time.Now()
	for first := 0; ; time.Sleep(20 * time.Millisecond) {
		n, err := countedTo(ts.MkAbs(args[0]))
		ts.Check(err)
		switch {
		case first == 0:
			first = n
		case n > first+3:
			return
		case time.Since(began) > patience(30*time.Second):
			ts.Fatalf("%s stays at %d", args[0], n)
		}
	}
}

// countedTo returns the last number that was written whole.
func countedTo(path string) (last int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return last, nil
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err != nil || n != last+1 {
			return 0, fmt.Errorf("%s: after %d comes %q", path, last, line)
		}
		last++
	}
}

// checkTidy is `tidy [STORE…]`: once no job needs them, no image and no allocation of
// one is left with any node, nor in the stores that are named, and no process,
// no control group and no directory of a job.
func checkTidy(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! tidy")
	}
	var left []string
	for deadline := time.Now().Add(patience(60 * time.Second)); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if left = ofJobs(ts.Getenv("CLUSTER"), args); len(left) == 0 {
			return
		}
	}
	ts.Fatalf("left of jobs that are over: %q", left)
}

func ofJobs(cluster string, stores []string) (left []string) {
	groups := groupsOfJobs(cluster)
	patterns := append([]string{filepath.Join(cluster, "nodes", "*", "jobs", "*")}, groups...)
	own, _ := filepath.Glob(filepath.Join(cluster, "nodes", "*", "images"))
	for _, store := range append(own, stores...) {
		patterns = append(patterns, filepath.Join(store, "images", "*"), filepath.Join(store, "making", "*"))
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	commandLines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commandLines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), cluster+"/nodes") && strings.Contains(string(text), "\x00shim\x00") {
			left = append(left, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return left
}

// groupsOfJobs are patterns of the control groups of the nodes' jobs.
func groupsOfJobs(cluster string) (patterns []string) {
	configs, _ := filepath.Glob(filepath.Join(cluster, "nodes", "*", "gnoded.toml"))
	for _, path := range configs {
		if parent := cgroupParent(path); parent != "" {
			patterns = append(patterns, "/sys/fs/cgroup"+parent+"/[0-9]*.*", "/sys/fs/cgroup/*"+parent+"/[0-9]*.*")
		}
	}
	return patterns
}

// mountSlowDisk is `slowdisk DIRECTORY MEGABYTES`: mounts a disk of its own on a
// directory until the story's end. fsfreeze(8) has it answer nobody for a while.
func mountSlowDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: slowdisk DIRECTORY MEGABYTES")
	}
	directory, image := ts.MkAbs(args[0]), filepath.Join(ts.Getenv("WORK"), "disk-"+filepath.Base(args[0]))
	ts.Check(os.MkdirAll(directory, 0o755))
	ts.Check(ts.Exec("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", image, args[1]+"M"))
	ts.Check(ts.Exec("mount", "-o", "loop", image, directory))
	unmountLater(ts, directory)
	// Also if this program is killed: what waits for a frozen disk cannot be.
	guard := exec.Command("sh", "-c", `while kill -0 "$2"; do sleep 1; done; fsfreeze -u "$1"`, "guard", directory, strconv.Itoa(os.Getpid()))
	ts.Check(guard.Start())
	ts.Defer(func() {
		_ = exec.Command("fsfreeze", "-u", directory).Run()
		_ = guard.Process.Kill()
		_ = guard.Wait()
	})
}

// listen is `listen NAME`: takes connections on a port of the loopback address,
// which $NAME is, until the story's end.
func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen NAME")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	go func() {
		for {
			if _, err := listener.Accept(); err != nil {
				return
			}
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	ts.Setenv(args[0], port)
}

// startOtherNode is `othernode CONFIG COMMAND…`: starts a node daemon by a
// command that makes something different for it.
func startOtherNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: othernode CONFIG COMMAND...")
	}
	program, err := lookPath("gnoded", ts.Getenv("PATH"))
	ts.Check(err)
	command := exec.Command(args[1], append(args[2:], program, "--config", args[0])...)
	command.Dir = ts.MkAbs(".")
	command.Env = []string{"PATH=" + ts.Getenv("PATH")}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runNode(ts, command, args[0])
}
