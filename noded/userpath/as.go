// Package userpath looks up the paths that a user chose: a work directory, a
// file for output, a home, what an image had open.
//
// The daemons are root, so they never look such a path up themselves. Here it
// is looked up on a thread that has the user's own identity and no capability
// at all, and what comes back is a descriptor: from then on nobody resolves the
// name again. A link that the user changes meanwhile changes nothing.
//
// No magic link of /proc (cwd, root, fd/N) is followed: on that thread those of
// the daemon itself would be open to the user. Where a rule depends on where
// something lies, Where answers that for the descriptor; the name that led to it
// says nothing.
//
// A thread is not a process: who may signal or trace the daemon does not change.
// So a FUSE file system that admits its owner alone does not admit this thread.
package userpath

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

// Identity is who looks.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
}

// As calls f with the file-system identity of a user: the user, the group and
// the supplementary groups, no capability in any set, and with umask.
//
// f must make its system calls itself, not in other goroutines. It runs on a
// thread of its own, which is discarded.
func As(id Identity, umask uint32, f func() error) (err error) {
	thread.Discard(func() {
		if err = becomeOnThread(id, umask); err == nil {
			err = f()
		}
	})
	return err
}

func becomeOnThread(id Identity, umask uint32) error {
	// The umask is shared between threads unless the thread parts from them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file-system attributes of a thread: %w", err)
	}
	unix.Umask(int(umask & 0o777))
	// Go's own wrapper would change all threads.
	var first *uint32
	if len(id.Groups) > 0 {
		first = &id.Groups[0]
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(id.Groups)), uintptr(unsafe.Pointer(first)), 0); errno != 0 {
		return fmt.Errorf("set the groups of a thread: %w", errno)
	}
	const ask = -1 // changes nothing, answers what is
	if _, err := unix.SetfsgidRetGid(int(id.GID)); err != nil {
		return fmt.Errorf("set the group of a thread: %w", err)
	}
	if is, _ := unix.SetfsgidRetGid(ask); is != int(id.GID) {
		return fmt.Errorf("set the group of a thread to %d: it is %d", id.GID, is)
	}
	if _, err := unix.SetfsuidRetUid(int(id.UID)); err != nil {
		return fmt.Errorf("set the user of a thread: %w", err)
	}
	if is, _ := unix.SetfsuidRetUid(ask); is != int(id.UID) {
		return fmt.Errorf("set the user of a thread to %d: it is %d", id.UID, is)
	}
	return dropCapabilities()
}

// dropCapabilities empties all sets of the thread. The change of the user above
// takes away those over files only, and with uid 0 not even those: with
// CAP_SYS_PTRACE, say, other people's /proc/PID/root would be open.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // 0: this thread
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("drop the capabilities of a thread: %w", errno)
	}
	return nil
}
