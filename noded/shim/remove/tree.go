package remove

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxDepth is how many directories deep removal goes with one open
// descriptor for each. What lies deeper is moved up and removed from there,
// so that no depth a job can make exhausts descriptors.
const maxDepth = 64

// Tree removes path and all below it. It never follows a link and never
// enters another mount: what is mounted below stays, with all above it, and an
// error that wraps ErrLeftOver reports it. It does nothing for a path that does not
// exist.
func Tree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return NewLeftOver(path, err)
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

// remove removes one entry of the directory dir.
func (r *remover) remove(dir int, name, path string, depth int) error {
	refused := unix.Unlinkat(dir, name, 0)
	switch {
	case refused == nil, errors.Is(refused, unix.ENOENT):
		return nil
	case !errors.Is(refused, unix.EISDIR) && !errors.Is(refused, unix.EPERM):
		return NewLeftOver(path, why(refused)) // EBUSY: a file is mounted there
	}
	if depth > maxDepth {
		return r.moveUp(dir, name, path)
	}
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // somebody else removes it too
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return NewLeftOver(path, why(refused)) // no directory, after all
	case err != nil:
		return NewLeftOver(path, why(err))
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
		return NewLeftOver(path, why(err))
	}
	return nil
}

// why says what an operator can do about a refusal of the kernel.
func why(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EBUSY):
		remedy = "something is mounted there: unmount it, the rest is done by the node"
	case errors.Is(err, unix.EPERM):
		remedy = "see whether it is immutable (lsattr), and chattr -i -a it"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EIO):
		remedy = "the file system is broken: see the kernel log, and drain the node"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, remedy)
}

// namesAtOnce bounds the names of a directory that are held in memory: a job
// may have made millions, and this memory is not the job's.
const namesAtOnce = 4096

// empty removes all entries of the directory fd. It continues after a failure,
// so that as little as possible is left, and repeats while entries appear
// that were moved up from below.
func (r *remover) empty(fd int, path string, depth int) error {
	for {
		seen, err := r.emptyOnce(fd, path, depth)
		if err != nil || seen == 0 {
			return err
		}
	}
}

// emptyOnce reads the directory once, through a descriptor of its own, and
// answers how many entries it saw.
func (r *remover) emptyOnce(fd int, path string, depth int) (seen int, first error) {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil // removed meanwhile
	}
	if err != nil {
		return 0, NewLeftOver(path, why(err))
	}
	d := os.NewFile(uintptr(again), path)
	defer d.Close()
	for {
		names, err := d.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := r.remove(fd, name, filepath.Join(path, name), depth+1); err != nil && first == nil {
				first = err
			}
		}
		seen += len(names)
		if errors.Is(err, io.EOF) {
			return seen, first
		}
		if err != nil {
			return seen, cmp.Or(first, NewLeftOver(path, why(err)))
		}
	}
}

// moveUp puts a deep directory where removal starts, under a name that is free
// there.
func (r *remover) moveUp(dir int, name, path string) error {
	for {
		target := ".deep-" + strconv.Itoa(r.deferred)
		r.deferred++
		err := unix.Renameat2(dir, name, r.topFd, target, unix.RENAME_NOREPLACE)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EEXIST):
			return NewLeftOver(path, why(err))
		}
	}
}
