package container

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNotAFile is returned, wrapped, by OpenAs for what cannot be a job's
// standard input or output.
var ErrNotAFile = errors.New("neither a file nor a pipe")

// kernelFiles are file systems whose files are the kernel's or a process's
// own. Opened by this process some of them would answer for this process.
var kernelFiles = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
	unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.EFIVARFS_MAGIC,
}

// OpenAs opens a job's input or output with the rights of u, to be bound into
// its container. A file that is created is u's. What is neither a regular file
// nor a pipe nor one of the devices that every job has is refused, and not
// even opened: opening alone rewinds a tape. flags should have O_NONBLOCK,
// lest a pipe without another end hold up the caller.
func OpenAs(u User, path string, flags int, umask uint32) (file *os.File, err error) {
	err = AsUser(u, umask, func() error {
		file, err = openUnseen(path, flags)
		return err
	})
	return file, err
}

// openUnseen looks at what path names before it opens that very thing.
func openUnseen(path string, flags int) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: err} }
	const always = unix.O_CLOEXEC | unix.O_NOCTTY
	// Magic links of /proc would lead to this process's own files.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	seen, err := openat2(path, &how)
	if errors.Is(err, unix.ENOENT) && flags&unix.O_CREAT != 0 {
		// Without O_EXCL, for the path may be a link to where the file is to
		// be. If something has appeared there meanwhile it is looked at now.
		how = unix.OpenHow{Flags: uint64(flags | always), Mode: 0o666, Resolve: unix.RESOLVE_NO_MAGICLINKS}
		fd, err := openat2(path, &how)
		if err == nil {
			if err = checkFile(fd); err != nil {
				unix.Close(fd)
			}
		}
		if err != nil {
			return fail(err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	if err != nil {
		return fail(err)
	}
	defer unix.Close(seen)
	if err := checkFile(seen); err != nil {
		return fail(err)
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(seen), flags&^unix.O_CREAT|always, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openat2(path string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// checkFile refuses what a job must not have as its input or output.
func checkFile(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFIFO:
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFCHR:
		if !everybodys(stat.Rdev) {
			return fmt.Errorf("%w, but a device", ErrNotAFile)
		}
	default:
		return ErrNotAFile
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if slices.Contains(kernelFiles, int64(fs.Type)) {
		return fmt.Errorf("%w, but the kernel's", ErrNotAFile)
	}
	return nil
}

// everybodys says whether every container has the device.
func everybodys(rdev uint64) bool {
	for _, n := range nodes {
		if int64(unix.Major(rdev)) == n.major && int64(unix.Minor(rdev)) == n.minor {
			return true
		}
	}
	return false
}
