package userpath

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrNotAFile is returned, wrapped, by OpenFile for what cannot be a job's
// standard input or output.
var ErrNotAFile = errors.New("neither a file nor a pipe")

// everybodys are the devices that every job has: null, zero, full, random,
// urandom and tty, by their numbers.
var everybodys = [][2]uint32{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}}

// OpenFile opens a job's input or output with the rights of its user, to be
// bound into its container. A file that is created is the user's. What is
// neither a regular file nor a pipe nor one of the devices that every job has is
// refused, and not even opened: opening alone rewinds a tape. flags should have
// O_NONBLOCK, lest a pipe without another end hold up the caller.
func OpenFile(id Identity, path string, flags int, umask uint32) (file *os.File, err error) {
	err = As(id, umask, func() error {
		file, err = openUnseen(path, flags)
		return err
	})
	return file, err
}

// openUnseen looks at what path names before it opens that very thing.
func openUnseen(path string, flags int) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: err} }
	const always = unix.O_NOCTTY
	seen, err := open(unix.AT_FDCWD, path, unix.OpenHow{Flags: unix.O_PATH})
	if errors.Is(err, unix.ENOENT) && flags&unix.O_CREAT != 0 {
		// Without O_EXCL, for the path may be a link to where the file is to
		// be. If something has appeared there meanwhile it is looked at now.
		file, err := open(unix.AT_FDCWD, path, unix.OpenHow{Flags: uint64(flags | always), Mode: 0o666})
		if err != nil {
			return nil, err
		}
		if err := checkFile(file, flags); err != nil {
			file.Close()
			return fail(err)
		}
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	if err := checkFile(seen, flags); err != nil {
		return fail(err)
	}
	fd, err := unix.Open(link(seen), flags&^unix.O_CREAT|always|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// checkFile refuses what a job must not have as its input or output.
func checkFile(file *os.File, flags int) error {
	fd := int(file.Fd())
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFIFO:
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFCHR:
		if !slices.Contains(everybodys, [2]uint32{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}) {
			return fmt.Errorf("%w, but a device", ErrNotAFile)
		}
		if flags&unix.O_ACCMODE == unix.O_RDONLY && isEndless(stat.Rdev) {
			return fmt.Errorf("%w, but a device that can be read without end: give /dev/null or a file", ErrNotAFile)
		}
	default:
		return ErrNotAFile
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if slices.Contains(kernelMagics, int64(fs.Type)) {
		return fmt.Errorf("%w, but the kernel's", ErrNotAFile)
	}
	return nil
}

// isEndless says whether a device that every container has never ends when it is
// read: as a job's input it would fill the disk to which a simple cat writes.
func isEndless(rdev uint64) bool {
	const memory, null = 1, 3
	return unix.Major(rdev) == memory && unix.Minor(rdev) != null
}
