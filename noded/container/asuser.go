package container

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AsUser calls f with the file-system identity of u: its user, group and
// supplementary groups, without root's power over files, and with umask. So a
// path that a user named is opened with that user's rights, whatever links it
// contains.
//
// f must make its system calls itself, not in other goroutines. It runs on a
// thread of its own, which is discarded.
func AsUser(u User, umask uint32, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		if err := becomeOnThread(u, umask); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func becomeOnThread(u User, umask uint32) error {
	// The umask is shared between threads unless the thread parts from them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file-system attributes of a thread: %w", err)
	}
	unix.Umask(int(umask & 0o777))
	// Go's own wrapper would change all threads.
	var first *uint32
	if len(u.Groups) > 0 {
		first = &u.Groups[0]
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(first)), 0); errno != 0 {
		return fmt.Errorf("set the groups of a thread: %w", errno)
	}
	const ask = -1 // changes nothing, answers what is
	if _, err := unix.SetfsgidRetGid(int(u.GID)); err != nil {
		return fmt.Errorf("set the group of a thread: %w", err)
	}
	if is, _ := unix.SetfsgidRetGid(ask); is != int(u.GID) {
		return fmt.Errorf("set the group of a thread to %d: it is %d", u.GID, is)
	}
	if _, err := unix.SetfsuidRetUid(int(u.UID)); err != nil {
		return fmt.Errorf("set the user of a thread: %w", err)
	}
	if is, _ := unix.SetfsuidRetUid(ask); is != int(u.UID) {
		return fmt.Errorf("set the user of a thread to %d: it is %d", u.UID, is)
	}
	return nil
}

// WorkDir is a job's work directory, opened with the user's rights.
type WorkDir struct {
	Path     string // as the user named it
	File     *os.File
	Writable bool // by the user
}

// OpenWorkDir opens a work directory with the rights of u.
func OpenWorkDir(u User, path string) (*WorkDir, error) {
	w := &WorkDir{Path: path}
	err := AsUser(u, 0, func() (err error) {
		w.File, err = os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fd := int(w.File.Fd())
		if err := unix.Faccessat2(fd, "", unix.X_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH); err != nil {
			w.File.Close()
			return &os.PathError{Op: "enter", Path: path, Err: err}
		}
		w.Writable = unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}
