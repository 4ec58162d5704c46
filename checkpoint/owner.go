package checkpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CRIU reads the limits of each process of a tree. Where root does not have
// CAP_SYS_RESOURCE, the kernel lets only the owner of their user namespace do
// that. So CRIU saves a tree as that owner, with all capabilities of this process:
// the caller may give them, and nothing else changes.

// ownerOf answers the host's user who owns the user namespace of a process, or the
// one above it that is directly below this process's own. That user has all rights in
// both.
func ownerOf(pid int) (uint32, error) {
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return 0, fmt.Errorf("look at the user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	for above := ""; err == nil; {
		fd, upErr := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_PARENT)
		if upErr != nil {
			break // this process's own, or beyond
		}
		parent := os.NewFile(uintptr(fd), "user namespace")
		if above, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || above == own {
			parent.Close()
			break
		}
		ns.Close()
		ns = parent
	}
	if err != nil {
		return 0, fmt.Errorf("look at the user namespace of process %d: %w", pid, err)
	}
	defer ns.Close()
	owner, err := unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil {
		return 0, fmt.Errorf("ask who owns the user namespace of process %d: %w", pid, err)
	}
	return owner, nil
}

// runAs runs CRIU as the owner, with this process's capabilities.
func (s *swrk) runAs(attr *syscall.SysProcAttr) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read this process's capabilities: %w", err)
	}
	for bit := range uintptr(unix.CAP_LAST_CAP + 1) {
		if caps[bit/32].Permitted&(1<<(bit%32)) != 0 {
			attr.AmbientCaps = append(attr.AmbientCaps, bit)
		}
	}
	attr.Credential = &syscall.Credential{Uid: s.owner, Gid: uint32(os.Getgid()), NoSetGroups: true}
	// CRIU wants this word from whoever is not root.
	s.request.Opts.Unprivileged = set(true)
	return nil
}

// allIDs are all users, or groups, that there are.
const allIDs = 1<<32 - 1

// runBelow starts CRIU in a user namespace that maker makes. CRIU is root there, and
// every number means the same user as outside. CRIU makes the tree's own namespace
// below it, and the kernel charges to maker, not to root, what is used in that. CRIU
// has no capability over anything else.
//
// It also gets a mount namespace, to which it may come back from the tree's.
func (s *swrk) runBelow(cmd *exec.Cmd) error {
	every := []syscall.SysProcIDMap{{Size: allIDs}}
	attr := cmd.SysProcAttr
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = every, every, true
	attr.Credential = &syscall.Credential{NoSetGroups: true}
	options := s.request.Opts
	// CRIU does without the right over the host's network, which it lacks.
	options.Unprivileged = set(true)
	// CRIU may not look at this process's descriptors, so it gets the directories as its
	// own. It works in the images' directory, and a link there leads to its log.
	own := func(dir *os.File) string {
		cmd.ExtraFiles = append(cmd.ExtraFiles, dir)
		return "/proc/self/fd/" + strconv.Itoa(2+len(cmd.ExtraFiles))
	}
	options.ImagesDir, options.ImagesDirFd, options.WorkDirFd = set(own(s.images)), set(int32(-1)), nil
	if err := os.Symlink(filepath.Join(own(s.logs), restoreLog), filepath.Join(s.images.Name(), restoreLog)); err != nil {
		return fmt.Errorf("make a link to criu's log: %w", err)
	}
	return asMaker(s.maker, cmd.Start)
}

// asMaker calls do with another effective user on this thread, and all capabilities.
// The caller keeps its goroutine on its thread.
func asMaker(uid uint32, do func() error) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // 0: this thread
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read this thread's capabilities: %w", err)
	}
	const keep = ^uintptr(0)
	// Of this thread alone: the kernel's own call, not the library's.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		return fmt.Errorf("become user %d on a thread: %w", uid, errno)
	}
	defer func() {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 0, keep); errno != 0 {
			panic("this thread's user id does not come back: " + errno.Error())
		}
	}()
	// The change of user takes the effective ones away, and leaves the permitted ones.
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("keep this thread's capabilities: %w", err)
	}
	return do()
}

// forbidWriting keeps a process from writing another byte to a file. The kernel allows
// that to whoever has its real user id, or CAP_SYS_RESOURCE.
func (s *swrk) forbidWriting(pid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const keep = ^uintptr(0)
	if s.owner != 0 {
		// Of this thread alone: the kernel's own call, not the library's.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(s.owner), keep, keep); errno != 0 {
			return errno
		}
		defer func() {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, keep, keep); errno != 0 {
				panic("this thread's user id does not come back: " + errno.Error())
			}
		}()
	}
	none := unix.Rlimit{}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &none, nil)
}
