package userpath

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Directory is one that a user chose, opened with the user's rights.
type Directory struct {
	Path     string   // as the user named it
	File     *os.File // O_PATH
	Writable bool     // by the user
}

// OpenDirectory opens a directory that the user may enter.
func OpenDirectory(id Identity, path string) (*Directory, error) {
	d := &Directory{Path: path}
	err := As(id, 0, func() (err error) {
		d.File, err = open(unix.AT_FDCWD, path, unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY})
		if err == nil {
			err = d.ask()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// MakeDirectory is OpenDirectory, and makes what is missing on the way.
func MakeDirectory(id Identity, path string, umask uint32) (*Directory, error) {
	d := &Directory{Path: path}
	err := As(id, umask, func() (err error) {
		if d.File, err = makeAll(filepath.Clean(path)); err == nil {
			err = d.ask()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// ask is called as the user. It closes the directory if it is of no use.
func (d *Directory) ask() error {
	fd := int(d.File.Fd())
	if err := unix.Faccessat2(fd, "", unix.X_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH); err != nil {
		d.File.Close()
		return &os.PathError{Op: "enter", Path: d.Path, Err: err}
	}
	d.Writable = unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
	return nil
}

// makeAll opens a directory, below its parent if it has to be made.
func makeAll(path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY}
	file, err := open(unix.AT_FDCWD, path, how)
	if !errors.Is(err, unix.ENOENT) {
		return file, err
	}
	parent, err := makeAll(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(path)
	if err := unix.Mkdirat(int(parent.Fd()), name, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return open(int(parent.Fd()), name, how)
}

// RemoveDirectory removes a directory of the user's, if it is empty.
func RemoveDirectory(id Identity, path string) error {
	path = filepath.Clean(path)
	return As(id, 0, func() error {
		parent, err := open(unix.AT_FDCWD, filepath.Dir(path), unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY})
		if err != nil {
			return err
		}
		defer parent.Close()
		if err := unix.Unlinkat(int(parent.Fd()), filepath.Base(path), unix.AT_REMOVEDIR); err != nil {
			return &os.PathError{Op: "rmdir", Path: path, Err: err}
		}
		return nil
	})
}

// Beneath opens what a path leads to below a directory, as the user, through no
// link at all, and not out of it. It is not opened for reading: O_PATH.
func Beneath(id Identity, top *os.File, path string) (file *os.File, err error) {
	err = As(id, 0, func() error {
		file, err = BeneathAsSelf(top, path)
		return err
	})
	return file, err
}

// BeneathAsSelf is Beneath for who has become the user: see As.
func BeneathAsSelf(top *os.File, path string) (*os.File, error) {
	return beneath(top, path, unix.O_PATH)
}

// LinkBeneathAsSelf is BeneathAsSelf for a path at which a link may be: that is opened
// itself, and not followed.
func LinkBeneathAsSelf(top *os.File, path string) (*os.File, error) {
	return beneath(top, path, unix.O_PATH|unix.O_NOFOLLOW)
}

func beneath(top *os.File, path string, flags uint64) (*os.File, error) {
	if path = strings.Trim(path, "/"); path == "" {
		path = "."
	}
	return open(int(top.Fd()), path, unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// open is openat2 without magic links. The caller has become the user.
func open(at int, path string, how unix.OpenHow) (*os.File, error) {
	how.Flags |= unix.O_CLOEXEC
	how.Resolve |= unix.RESOLVE_NO_MAGICLINKS
	fd, err := Openat2(at, path, how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// link is the path of an open file in /proc, for calls that take no descriptor.
func link(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }
