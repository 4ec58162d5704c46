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

// If a signal has stopped a process and the freezer of control groups v1 has frozen it,
// ptrace waits for it until it is thawed: for ever. But CRIU can handle a stop that is
// still pending. So renewStops tells each stopped process of a frozen tree to continue
// and to stop again. It does neither before it is thawed, and then it is stopped as it
// was.

// renewStops makes the stops of a frozen tree pending.
func renewStops(tree Tree, freezer string) error {
	if _, err := os.Stat(filepath.Join(freezer, "freezer.state")); err != nil {
		return nil // v2 lets ptrace through
	}
	pids, err := tree.Procs()
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		// About a frozen process, the kernel only tells where it waits.
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

// continueInit wakes process 1 of a tree from a stop. Nobody inside can stop it: the
// kernel drops such signals. Whoever stopped it from outside may send SIGCONT at any
// time, and a save loses that signal: CRIU stops the process again when it lets go of
// it, and after a restore the signal goes to the number that the process had before.
// A process 1 that stays stopped collects no children, so its job would never end.
func continueInit(pid int) error {
	if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("continue process 1: %w", err)
	}
	return nil
}

// trace is how the kernel names CRIU's own code in a process's memory.
const trace = "/memfd:CRIUMFD"

// checkSettled makes sure that no process is in the middle of code that a killed
// CRIU left in it. Such a process was frozen before it could leave that code. The code
// itself does no harm in its memory.
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

// readPosition answers where a frozen thread would continue: the last word of
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
