package userpath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// raceTries is how often a path is walked again because something was renamed on the
// machine meanwhile. A walk takes microseconds, so even a job that does nothing but
// rename leaves some of so many alone.
const raceTries = 10_000

// Openat2 is openat2(2), whoever calls it. A walk that must not leave a directory is
// refused with EAGAIN if it met "..", also in a link, while anything was renamed or
// mounted on the machine: then it is made again.
func Openat2(at int, path string, how unix.OpenHow) (fd int, err error) {
	for range raceTries {
		fd, err = unix.Openat2(at, path, &how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}
