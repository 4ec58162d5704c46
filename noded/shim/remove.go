package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxDepth is how many directories deep removal goes with one open
// descriptor for each. What lies deeper is moved up and removed from there,
// so that no depth a job can make exhausts descriptors.
const maxDepth = 64

// removeTree removes path and all below it. It never follows a link and never
// enters another mount: what is mounted below stays, with all above it, and
// is reported by an error that wraps ErrLeftOver. A path that does not exist
// is removed already.
func removeTree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return leftOver(path, err)
	}
	defer unix.Close(parent)
	r := &remover{top: path}
	return r.remove(parent, filepath.Base(path), path, 0)
}

type remover struct {
	top      string
	topFd    int // of the directory top itself, while it is being emptied
	deferred int // directories moved up so far
}

func leftOver(path string, err error) error {
	return fmt.Errorf("%s %w: %w", path, ErrLeftOver, err)
}

// remove removes one entry of the directory dir.
func (r *remover) remove(dir int, name, path string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return leftOver(path, err) // EBUSY: a file is mounted there
	}
	if depth > maxDepth {
		return r.moveUp(dir, name, path)
	}
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return leftOver(path, err) // EXDEV: a mount
	}
	if depth == 0 {
		r.topFd = fd
	}
	err = r.empty(fd, path, depth)
	unix.Close(fd)
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return leftOver(path, err)
	}
	return nil
}

// empty removes all entries of the directory fd. It goes on after a failure,
// so that as little as possible is left, and repeats while entries appear
// that were moved up from below.
func (r *remover) empty(fd int, path string, depth int) error {
	var first error
	for {
		names, err := entries(fd, path)
		if err != nil {
			return leftOver(path, err)
		}
		removed := 0
		for _, name := range names {
			if err := r.remove(fd, name, filepath.Join(path, name), depth+1); err == nil {
				removed++
			} else if first == nil {
				first = err
			}
		}
		if removed == 0 || first != nil {
			return first
		}
	}
}

// moveUp puts a deep directory where removal starts.
func (r *remover) moveUp(dir int, name, path string) error {
	target := ".deep-" + strconv.Itoa(r.deferred)
	r.deferred++
	if err := unix.Renameat2(dir, name, r.topFd, target, unix.RENAME_NOREPLACE); err != nil {
		return leftOver(path, err)
	}
	return nil
}

// entries reads a directory through a descriptor of its own, from the start.
func entries(fd int, path string) ([]string, error) {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(again), path)
	defer d.Close()
	return d.Readdirnames(-1)
}
