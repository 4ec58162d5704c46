package bundle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The lock belongs to the open file description, and a query does not take it: so
// nobody who asks whether a supervisor lives can make its start fail.

// Lock locks a file for the life of the process, or until the answer is
// closed. It fails with ErrAlive if somebody else has locked it.
func Lock(path string) (*os.File, error) {
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

// NameHolder writes this process's number into the lock, for those who must
// kill it when it does not answer.
func NameHolder(lock *os.File) error {
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("write the allocation's lock: %w", err)
	}
	return nil
}

// Locked says whether a process holds the lock.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
