package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// layers are the directories of the allocation that make its root writable.
type layers struct{ upper, work, tmp, varTmp string }

// makeLayers makes them. Their owner is the container's root, as the host's
// root owns the host's.
func (s *stage) makeLayers(dir string) (layers, error) {
	l := layers{
		upper: filepath.Join(dir, "upper"), work: filepath.Join(dir, "work"),
		tmp: filepath.Join(dir, "tmp"), varTmp: filepath.Join(dir, "var-tmp"),
	}
	root, group := hostID(s.uids, 0), hostID(s.gids, 0)
	for _, d := range []struct {
		path string
		mode uint32
	}{{l.upper, 0o755}, {l.work, 0o700}, {l.tmp, 0o1777}, {l.varTmp, 0o1777}} {
		// The disk of an earlier run of the job has them already.
		if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return l, fmt.Errorf("make a layer of the root: %w", err)
		}
		if err := os.Chown(d.path, root, group); err != nil {
			return l, fmt.Errorf("give a layer of the root to the container: %w", err)
		}
		if err := unix.Chmod(d.path, d.mode); err != nil {
			return l, &os.PathError{Op: "chmod", Path: d.path, Err: err}
		}
	}
	return l, nil
}

// mountRoot mounts the overlay over lower, which is attached, and answers its
// path. "volatile" keeps an unmount from syncing the whole file system below:
// nobody reads an allocation's layer after a crash of the machine.
func (s *stage) mountRoot(lower string, l layers) (string, error) {
	root := filepath.Join(s.path, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", fmt.Errorf("make mount point: %w", err)
	}
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open an overlay: %w", err)
	}
	defer unix.Close(fd)
	for _, option := range [][2]string{{"source", "gleaner"}, {"lowerdir", lower}, {"upperdir", l.upper}, {"workdir", l.work}} {
		if err := unix.FsconfigSetString(fd, option[0], option[1]); err != nil {
			return "", fmt.Errorf("overlay over the host's root, %s=%s: %w", option[0], option[1], err)
		}
	}
	if err := unix.FsconfigSetFlag(fd, "volatile"); err != nil {
		return "", fmt.Errorf("overlay over the host's root, volatile: %w", err)
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return "", fmt.Errorf("overlay over the host's root, upper layer %s: %w", l.upper, err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("overlay over the host's root: %w", err)
	}
	defer unix.Close(mount)
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, root, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", fmt.Errorf("mount the container's root on %s: %w", root, err)
	}
	return root, nil
}
