package client

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// PrepareStateDir puts in place what all supervisors below stateDir use. The
// daemon calls it when it starts, before the first Launch, so that a new kernel
// or library gets a new filter.
func PrepareStateDir(stateDir string) error {
	jobs := filepath.Join(stateDir, bundle.JobsDir)
	if err := os.MkdirAll(jobs, 0o700); err != nil {
		return fmt.Errorf("make the directory of allocations: %w", err)
	}
	spread(jobs)
	// A daemon that died while it was asked about images has left them. They disturb
	// nobody if they stay.
	_ = remove.Tree(filepath.Join(stateDir, askedDir))
	return putFilter(stateDir, bundle.FilterFile, false)
}

// nestedMutex keeps two launches from writing the filter of nested containers at once.
var nestedMutex sync.Mutex

// putNestedFilter puts in place what the supervisor of a job reads that may have containers
// inside, unless it is there. Few jobs do that, and a daemon without such jobs starts in
// half the time.
func putNestedFilter(stateDir string) error {
	nestedMutex.Lock()
	defer nestedMutex.Unlock()
	return putFilter(stateDir, bundle.NestedFilterFile, true)
}

// putFilter writes a system-call filter of this kernel and library, unless it is there.
func putFilter(stateDir, name string, nested bool) error {
	filter, err := container.CompileFilter(nested)
	if err != nil {
		return err
	}
	dir := bundle.Dir(stateDir)
	if there, err := os.ReadFile(dir.Path(name)); err == nil && bytes.Equal(there, filter) {
		return nil // a supervisor may just read it
	}
	if err := dir.WriteFile(name, filter); err != nil {
		return fmt.Errorf("keep the system-call filter: %w", err)
	}
	return nil
}

// spread tells the file system, if it supports that, that the directories
// in dir have nothing to do with each other (chattr(1), attribute T). Otherwise ext4
// takes all their inodes from one place. Without a journal, it looks there at
// each inode that was deleted in the last minute before it gives a new one:
// with allocations that come and go, that costs more than their containers.
func spread(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	fd := int(d.Fd())
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|topDirectory)
	}
}

// topDirectory is FS_TOPDIR_FL of linux/fs.h.
const topDirectory = 0x00020000
