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

// takeLock locks the part for the life of the process.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the part's lock: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrAlive
		}
		return nil, fmt.Errorf("lock the part: %w", err)
	}
	// For whoever has to kill this process when it does not answer.
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write the part's lock: %w", err)
	}
	return f, nil
}

// killHolder kills the process that holds the lock, which is named in it, with
// SIGKILL. A number may have been given to another process, so the one that is
// killed must be a supervisor of this very part.
func killHolder(d directory) error {
	text, err := os.ReadFile(d.path(lockFile))
	if err != nil {
		return fmt.Errorf("find the part's supervisor: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 1 {
		return fmt.Errorf("find the part's supervisor: %s does not name a process", d.path(lockFile))
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the part's supervisor: process %d: %w", pid, err)
	}
	defer unix.Close(process)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if arguments := strings.Split(string(line), "\x00"); err != nil || len(arguments) < 3 || arguments[1] != Word || arguments[2] != string(d) {
		return fmt.Errorf("find the part's supervisor: process %d is another program", pid)
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill the part's supervisor, process %d: %w", pid, err)
	}
	return nil
}

// locked says whether a process holds the lock.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
