package scenario

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() {
	commands["midway"] = stopMidway
}

// midwayTries is how often a command is given: CRIU may have been too fast.
const midwayTries = 8

// stopMidway is `midway save|restore JOB COMMAND…`: gives the command, and stops
// CRIU in the middle of saving or restoring the job. $CRIU, $SHIM and $NODE then
// say who is in the middle of what, and $ALLOC in which directory. The command
// continues in the background until the story's end.
func stopMidway(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: midway save|restore JOB COMMAND...")
	}
	program, err := lookPath(args[2], ts.Getenv("PATH"))
	ts.Check(err)
	for range midwayTries {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), patience(time.Minute))
		command := exec.CommandContext(ctx, program, args[3:]...)
		for _, name := range []string{"PATH", "GLEANER_CONTROLLER", "GLEANER_NODED", "STORY", "ALICE", "BOB", "CLUSTER"} {
			command.Env = append(command.Env, name+"="+ts.Getenv(name))
		}
		command.Stdout, command.Stderr = &out, &out
		ts.Check(command.Start())
		over := make(chan struct{})
		go func() {
			_ = command.Wait()
			cancel()
			close(over)
		}()
		if stopCRIU(ts, args[0], args[1], over) {
			ts.Defer(func() {
				cancel()
				<-over
				ts.Logf("--- %s\n%s", strings.Join(args[2:], " "), &out)
			})
			return
		}
		cancel()
		<-over
		ts.Logf("too late to stop CRIU: %s", &out)
	}
	ts.Fatalf("CRIU was not met in the middle of its work")
}

// stopCRIU reports whether it has stopped a CRIU in mid-work before over was closed.
func stopCRIU(ts *testscript.TestScript, what, job string, over chan struct{}) bool {
	for {
		select {
		case <-over:
			return false
		case <-time.After(500 * time.Microsecond):
		}
		allocs, _ := filepath.Glob(filepath.Join(ts.Getenv("CLUSTER"), "nodes", "*", "jobs", job+".*"))
		for _, alloc := range allocs {
			if !inTheMiddle(what, alloc) {
				continue
			}
			shim, _ := os.ReadFile(filepath.Join(alloc, "shim.lock"))
			supervisor, _ := strconv.Atoi(strings.TrimSpace(string(shim)))
			criu := criuOf(supervisor, what)
			if criu == 0 || syscall.Kill(criu, syscall.SIGSTOP) != nil {
				continue
			}
			ts.Defer(func() { resume(criu) })
			if !stopped(criu) || !inTheMiddle(what, alloc) {
				resume(criu)
				continue
			}
			ts.Setenv("CRIU", strconv.Itoa(criu))
			ts.Setenv("SHIM", strconv.Itoa(supervisor))
			ts.Setenv("ALLOC", alloc)
			ts.Setenv("NODE", filepath.Base(filepath.Dir(filepath.Dir(alloc))))
			return true
		}
	}
}

// inTheMiddle reports whether CRIU has begun to write the images of an allocation, or to
// make its processes.
func inTheMiddle(what, alloc string) bool {
	if what == "save" {
		images, _ := filepath.Glob(filepath.Join(alloc, "save", "criu", "*.img"))
		whole := slices.ContainsFunc(images, func(path string) bool { return filepath.Base(path) == "inventory.img" })
		return len(images) > 0 && !whole // which is written last
	}
	log, err := os.ReadFile(filepath.Join(alloc, "criu", "restore.log"))
	return err == nil && bytes.Contains(log, []byte("Forking task"))
}

// criuOf is the CRIU at work that a supervisor has started, or 0.
func criuOf(parent int, what string) int {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, path := range children {
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			if pid, _ := strconv.Atoi(field); doesCRIU(pid, titles[what]) {
				return pid
			}
		}
	}
	return 0
}

// stopped waits until a process is stopped.
func stopped(pid int) bool {
	for deadline := time.Now().Add(leastPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		if _, rest, _ := bytes.Cut(stat, []byte(") ")); bytes.HasPrefix(rest, []byte("T")) {
			return true
		}
	}
	return false
}

// resume lets a CRIU continue that was stopped, if it is still that.
func resume(pid int) {
	if doesCRIU(pid, "criu: ") {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// titles are what CRIU calls itself while it is at work.
var titles = map[string]string{"save": "criu: dump", "restore": "criu: restore"}

func doesCRIU(pid int, title string) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(line, []byte(title))
}
