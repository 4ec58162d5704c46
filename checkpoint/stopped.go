package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
// they could leave it.
func checkSettled(tree Tree) error {
	pids, err := tree.Procs()
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			continue // it was killed
		}
		if strings.Contains(string(maps), trace) {
			return fmt.Errorf("%w: process %d holds what CRIU has left", ErrUnsettled, pid)
		}
	}
	return nil
}
