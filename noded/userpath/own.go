package userpath

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotOwn is returned, wrapped, by OpenOwn for a file of somebody else's that the user
// may not write to.
var ErrNotOwn = errors.New("is somebody else's")

// OpenOwn opens for reading, as the user, a regular file that is the user's, or that the
// user may write to. Anything else is not even opened: opening alone lets a writer
// go on that waits at a pipe.
func OpenOwn(id Identity, path string) (file *os.File, err error) {
	err = As(id, 0, func() error {
		file, err = openOwn(id, path)
		return err
	})
	return file, err
}

func openOwn(id Identity, path string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: err} }
	seen, err := open(unix.AT_FDCWD, path, unix.OpenHow{Flags: unix.O_PATH})
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	fd := int(seen.Fd())
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fail(err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return fail(unix.EISDIR)
	default:
		return fail(ErrNotAFile)
	}
	if err := checkFile(seen, unix.O_RDONLY); err != nil {
		return fail(err)
	}
	if stat.Uid != id.UID && unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) != nil {
		return fail(ErrNotOwn)
	}
	fd, err = unix.Open(link(seen), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
