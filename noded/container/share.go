package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// share is a directory of the host that jobs use as they would outside,
// mounted in the container's root before libcontainer sees that. The library
// would look into each source that it is given, and a file server that is
// away would hold up every start on the node, also of jobs that do not need
// it. And it would look as the container's root, which may not enter what
// other people have closed.
type share struct {
	path string
	tree *os.File
}

// cloneShares clones the directories that the configuration binds and the
// host's further file systems that are not part of the root, parents first.
// Nothing in them is looked at.
func (s *stage) cloneShares(binds []string, mounts []hostMount) ([]share, error) {
	var shares []share
	add := func(path string, o cloneOptions) error {
		o.attr = unix.MOUNT_ATTR_NOSUID
		tree, err := s.clone(path, nil, o)
		if err == nil {
			shares = append(shares, share{path, tree})
		}
		return err
	}
	for _, m := range mounts {
		if m.system {
			continue
		}
		if err := add(m.path, cloneOptions{recursive: m.network, idmap: !m.network, noAutomount: true}); err != nil {
			return nil, err
		}
	}
	for _, path := range binds {
		if isPrivate(path) {
			continue
		}
		if err := add(path, cloneOptions{recursive: true, idmap: true}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(shares, func(a, b share) int { return strings.Compare(a.path+"/", b.path+"/") })
	return shares, nil
}

// mountShares mounts them below root, which is attached, and then hides the
// directories of hidden that lie in one of them. It answers those that do not.
func (s *stage) mountShares(root string, shares []share, hidden []string) (rest []string, err error) {
	if len(shares) == 0 {
		return hidden, nil
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(top)
	for _, sh := range shares {
		isDir, err := isDirectory(sh.tree)
		if err != nil {
			return nil, err
		}
		point, err := s.mountPoint(top, sh.path, isDir)
		if err != nil {
			return nil, fmt.Errorf("make the mount point of %s: %w", sh.path, err)
		}
		err = unix.MoveMount(int(sh.tree.Fd()), "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		unix.Close(point)
		if err != nil {
			return nil, fmt.Errorf("mount a copy of %s in the container's root: %w", sh.path, err)
		}
	}
	for _, dir := range hidden {
		if !slices.ContainsFunc(shares, func(sh share) bool { return within(dir, sh.path) }) {
			rest = append(rest, dir)
			continue
		}
		if err := hideBelow(top, dir); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

var inRoot = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}

// mountPoint opens path below top, and makes what is missing: the host's may
// lie in a file system that is not shown.
func (s *stage) mountPoint(top int, path string, isDir bool) (int, error) {
	point, err := unix.Openat2(top, path, &inRoot)
	if !errors.Is(err, unix.ENOENT) {
		return point, err
	}
	parent, err := s.mountPoint(top, filepath.Dir(path), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	name := filepath.Base(path)
	if isDir {
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil {
		return -1, err
	}
	if err := unix.Fchownat(parent, name, hostID(s.uids, 0), hostID(s.gids, 0), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return unix.Openat2(top, path, &inRoot)
}

// hideBelow mounts an empty directory over dir, if there is one.
func hideBelow(top int, dir string) error {
	how := inRoot
	how.Flags |= unix.O_DIRECTORY
	point, err := unix.Openat2(top, dir, &how)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", dir, err)
	}
	defer unix.Close(point)
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	if err := unix.Mount("gleaner", "/proc/self/fd/"+strconv.Itoa(point), "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("hide %s: %w", dir, err)
	}
	return nil
}

// inShare says whether the file, which path has led to, is seen inside at
// path without a mount of its own.
func inShare(mounts []hostMount, file *os.File, path string) bool {
	if isPrivate(path) {
		return false // a link there may have led out of it
	}
	stat, err := look(file, unix.STATX_MNT_ID)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(mounts, func(m hostMount) bool { return !m.system && uint64(m.id) == stat.Mnt_id })
}

// isDirectory says whether a tree is one, else it is a file.
func isDirectory(tree *os.File) (bool, error) {
	stat, err := look(tree, unix.STATX_TYPE)
	return stat.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// look asks about an open file, and no file server.
func look(file *os.File, mask int) (stat unix.Statx_t, err error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(int(file.Fd()), "", flags, mask, &stat); err != nil {
		return stat, &os.PathError{Op: "look at", Path: file.Name(), Err: err}
	}
	return stat, nil
}

// isDirNow says whether path is a directory, and asks no file server for the
// last component of it.
func isDirNow(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR
}

// existing answers those paths that are directories.
func existing(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !isDirNow(strings.TrimRight(path, "/")) })
}
