package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The freezer of control groups v1 holds a process that a signal has stopped
// so that ptrace waits for it until it is thawed, for ever. A stop that is
// still to come, which CRIU knows, can be waited for: so a stopped process of a
// frozen tree is told to go on and to stop again. It does neither before it
// is thawed, and then it is stopped as it was.

// renewStops does that to every stopped process of a frozen tree.
func renewStops(tree Tree, freezer string) error {
	if _, err := os.Stat(filepath.Join(freezer, "freezer.state")); err != nil {
		return nil // v2 lets ptrace through
	}
	pids, err := tree.Procs()
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		// Of a frozen process the kernel does not tell more than where it is.
		where, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
		if err != nil || string(where) != "do_signal_stop" {
			continue
		}
		for _, signal := range []unix.Signal{unix.SIGCONT, unix.SIGSTOP} {
			if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop process %d again: %w", pid, err)
			}
		}
	}
	return nil
}

// trace is how the kernel names CRIU's own code in a process's memory.
const trace = "/memfd:CRIUMFD"

// checkSettled makes sure that no process is in the middle of CRIU's own code,
// which one that was killed has left there: the processes were stopped before
// they could leave it. That it lies in their memory does no harm.
func checkSettled(tree Tree) error {
	pids, err := tree.Procs()
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		traces := readTraces(pid)
		if len(traces) == 0 {
			continue
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		if err != nil {
			return err
		}
		for _, path := range threads {
			if at, ok := readPosition(path); ok && slices.ContainsFunc(traces, func(t addresses) bool { return t.from <= at && at < t.to }) {
				return fmt.Errorf("%w: process %d is in the middle of what CRIU has left", ErrUnsettled, pid)
			}
		}
	}
	return nil
}

// addresses are a piece of a process's memory.
type addresses struct{ from, to uint64 }

// readTraces answers where CRIU's code lies in a process that has any.
func readTraces(pid int) (found []addresses) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || !strings.Contains(string(maps), trace) {
		return nil // or it was killed
	}
	for line := range strings.Lines(string(maps)) {
		var a addresses
		if !strings.Contains(line, trace) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &a.from, &a.to); err == nil {
			found = append(found, a)
		}
	}
	return found
}

// readPosition answers where a thread that stands would go on: the last word of
// /proc/PID/task/TID/syscall, see proc_pid_syscall(5).
func readPosition(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	words := strings.Fields(string(text))
	if err != nil || len(words) < 2 {
		return 0, false
	}
	at, err := strconv.ParseUint(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
	return at, err == nil
}
