package shim

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
)

// filterFile is the system-call filter of all containers, in the state
// directory. To make it takes as long as to make a container.
const filterFile = "syscalls.bpf"

// PrepareStateDir puts in place what all supervisors below stateDir use. The
// daemon calls it when it starts, before the first Launch, so that a new kernel
// or library gets a new filter.
func PrepareStateDir(stateDir string) error {
	jobs := filepath.Join(stateDir, jobsDir)
	if err := os.MkdirAll(jobs, 0o700); err != nil {
		return fmt.Errorf("make the directory of parts: %w", err)
	}
	spread(jobs)
	filter, err := container.CompileFilter()
	if err != nil {
		return err
	}
	if err := directory(stateDir).writeFile(filterFile, filter); err != nil {
		return fmt.Errorf("keep the system-call filter: %w", err)
	}
	return nil
}

// spread tells the file system, where it is one that asks, that the directories
// in dir have nothing to do with each other (chattr(1), attribute T). Else ext4
// gives them all inodes of one place, and where it has no journal, it looks at
// each one there that was deleted in the last minute before it gives a new one:
// with parts that come and go that costs more than their containers.
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

func (s *Settings) filter() ([]byte, error) {
	filter, err := os.ReadFile(filepath.Join(s.StateDir, filterFile))
	if err != nil {
		return nil, fmt.Errorf("read the system-call filter, which gnoded makes when it starts: %w", err)
	}
	return filter, nil
}
