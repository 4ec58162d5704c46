package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// target is the directory that an image is unpacked into.
type target struct {
	path        string
	top         int
	made        bool // the directory itself
	files       []string
	directories []string // in the order in which they were made
	known       map[string]bool
}

func makeTarget(directory string) (_ *target, err error) {
	t := &target{path: directory, known: map[string]bool{".": true}}
	switch err := os.Mkdir(directory, 0o700); {
	case err == nil:
		t.made = true
	case !errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("make the directory to unpack into: %w", full(err))
	}
	t.top, err = unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the directory to unpack into: %w", &os.PathError{Op: "open", Path: directory, Err: err})
	}
	if names, err := os.ReadDir(directory); err != nil || len(names) > 0 {
		unix.Close(t.top)
		if err == nil {
			err = fmt.Errorf("%s is not empty: it has %s", directory, names[0].Name())
		}
		return nil, fmt.Errorf("open the directory to unpack into: %w", err)
	}
	return t, nil
}

// fits refuses what the file system has no room for.
func (t *target) fits(needed int64) error {
	var state unix.Statfs_t
	if err := unix.Fstatfs(t.top, &state); err != nil {
		return fmt.Errorf("look at the space of %s: %w", t.path, err)
	}
	if free := int64(state.Bavail) * state.Bsize; needed > free {
		return fmt.Errorf("%w: the image has %s, and %s has %s free", ErrFull, size(needed), t.path, size(free))
	}
	return nil
}

// create makes a part's file, all hole, and the directories above it.
func (t *target) create(name string, size int64) error {
	if err := t.directory(path.Dir(name)); err != nil {
		return err
	}
	fd, err := beneath(t.top, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make part %s: %w", name, full(err))
	}
	t.files = append(t.files, name)
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		return fmt.Errorf("make part %s: %w", name, full(err))
	}
	return nil
}

func (t *target) directory(name string) error {
	if t.known[name] {
		return nil
	}
	if err := t.directory(path.Dir(name)); err != nil {
		return err
	}
	above, err := beneath(t.top, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	defer unix.Close(above)
	if err := unix.Mkdirat(above, path.Base(name), 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", name, full(err))
	}
	t.known[name] = true
	t.directories = append(t.directories, name)
	return nil
}

// close lets the directory go; undo removes all that was made, by name: it
// never looks for anything to remove.
func (t *target) close(undo bool) error {
	defer unix.Close(t.top)
	if !undo {
		return nil
	}
	remove := func(name string, flags int) error {
		above, err := beneath(t.top, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(above)
		return unix.Unlinkat(above, path.Base(name), flags)
	}
	var failed error
	for _, name := range t.files {
		failed = errors.Join(failed, remove(name, 0))
	}
	for _, name := range slices.Backward(t.directories) {
		failed = errors.Join(failed, remove(name, unix.AT_REMOVEDIR))
	}
	if t.made {
		failed = errors.Join(failed, os.Remove(filepath.Clean(t.path)))
	}
	return failed
}
