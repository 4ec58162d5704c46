package client

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// killHolder kills the process that holds the lock, which is named in it, with
// SIGKILL. A number may have been given to another process, so the one that is
// killed must be a supervisor of this very allocation.
func killHolder(d bundle.Dir) error {
	text, err := bundle.ReadRegular(d.Path(bundle.LockFile), bundle.MaxReportBytes)
	if err != nil {
		return fmt.Errorf("find the allocation's supervisor: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 1 {
		return fmt.Errorf("find the allocation's supervisor: %s does not name a process", d.Path(bundle.LockFile))
	}
	return killSupervisor(pid, d)
}

// killSupervisor kills a process, if it is a supervisor of this very allocation.
func killSupervisor(pid int, d bundle.Dir) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the allocation's supervisor: process %d: %w", pid, err)
	}
	defer unix.Close(process)
	if !supervises(pid, d) {
		return fmt.Errorf("find the allocation's supervisor: process %d is another program", pid)
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill the allocation's supervisor, process %d: %w", pid, err)
	}
	return nil
}

// supervisorsOf looks for supervisors of the allocation among all processes, for an
// allocation whose lock is not reliable.
func supervisorsOf(d bundle.Dir) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && supervises(pid, d) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// supervises says whether the process is a supervisor of this very allocation.
func supervises(pid int, d bundle.Dir) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	arguments := strings.Split(string(line), "\x00")
	return err == nil && len(arguments) >= 3 && arguments[1] == Word && arguments[2] == string(d)
}
