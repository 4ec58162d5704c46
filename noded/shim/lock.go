package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The lock is one of the open file description, which a look does not take:
// so nobody who asks whether a supervisor lives can get into its way.

// takeLock locks a file for the life of the process, or until the answer is
// closed. It fails with ErrAlive when somebody else has locked it.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrAlive
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// nameHolder writes this process's number into the lock, for whoever has to
// kill it when it does not answer.
func nameHolder(lock *os.File) error {
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("write the part's lock: %w", err)
	}
	return nil
}

// killHolder kills the process that holds the lock, which is named in it, with
// SIGKILL. A number may have been given to another process, so the one that is
// killed must be a supervisor of this very part.
func killHolder(d directory) error {
	text, err := readRegular(d.path(lockFile), maxReportBytes)
	if err != nil {
		return fmt.Errorf("find the part's supervisor: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 1 {
		return fmt.Errorf("find the part's supervisor: %s does not name a process", d.path(lockFile))
	}
	return killSupervisor(pid, d)
}

// killSupervisor kills a process, if it is a supervisor of this very part.
func killSupervisor(pid int, d directory) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the part's supervisor: process %d: %w", pid, err)
	}
	defer unix.Close(process)
	if !supervises(pid, d) {
		return fmt.Errorf("find the part's supervisor: process %d is another program", pid)
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill the part's supervisor, process %d: %w", pid, err)
	}
	return nil
}

// supervisorsOf looks for supervisors of the part among all processes, for a
// part whose lock is not to be relied on.
func supervisorsOf(d directory) []int {
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

// supervises says whether the process is a supervisor of this very part.
func supervises(pid int, d directory) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	arguments := strings.Split(string(line), "\x00")
	return err == nil && len(arguments) >= 3 && arguments[1] == Word && arguments[2] == string(d)
}

// locked says whether a process holds the lock.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
