package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// stage is a small tmpfs over a directory of the caller's mount namespace
// that the caller does not need. Everything the container is made of is
// mounted there first, because the container's own setup, which runs without
// any right on the host, must be able to reach it by a path, while the allocation's
// directory is closed to everybody. One unmount removes all of it.
type stage struct {
	path   string
	count  int
	uids   []configs.IDMap
	gids   []configs.IDMap
	userns *os.File   // whose map idmapped mounts have
	own    *os.File   // the container's user namespace; nil when CRIU makes it
	open   []*os.File // trees that are not mounted yet
}

// stageCandidates exist on every Linux system and hold nothing a supervisor
// needs, unless Spec.Keep says so.
var stageCandidates = []string{"/mnt", "/media", "/srv", "/boot", "/opt", "/home"}

func newStage(spec *Spec) (*stage, error) {
	if uid := spec.User.UID; uid >= ownerBase && uid < ownerBase+owners {
		return nil, fmt.Errorf("%w: id %d lies in the range %d to %d, as which user namespaces are made", ErrUser, uid, ownerBase, ownerBase+owners-1)
	}
	uids, err := mapIDs([]uint32{spec.User.UID})
	if err != nil {
		return nil, err
	}
	gids, err := mapIDs(append([]uint32{spec.User.GID}, spec.User.Groups...))
	if err != nil {
		return nil, err
	}
	mountUIDs, err := mapMountIDs([]uint32{spec.User.UID})
	if err != nil {
		return nil, err
	}
	mountGIDs, err := mapMountIDs(append([]uint32{spec.User.GID}, spec.User.Groups...))
	if err != nil {
		return nil, err
	}
	userns, err := userNamespace(mountUIDs, mountGIDs, 0, nil)
	if err != nil {
		return nil, err
	}
	return &stage{uids: uids, gids: gids, userns: userns}, nil
}

// mount puts the tmpfs in place. From now on what lay below its path can only
// be reached through descriptors.
func (s *stage) mount(keep []string) error {
	for _, candidate := range stageCandidates {
		if !isDirNow(candidate) || holdsAny(candidate, keep) {
			continue
		}
		if err := unix.Mount("gleaner", candidate, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
			return fmt.Errorf("mount staging area on %s: %w", candidate, err)
		}
		s.path = candidate
		return nil
	}
	return fmt.Errorf("no directory is free for the staging area: all of %s are missing or in use", strings.Join(stageCandidates, ", "))
}

// states is where libcontainer keeps its state, of use to nobody after the
// caller's end.
func (s *stage) states() string { return filepath.Join(s.path, "state") }

// close unmounts everything and checks that it is gone.
func (s *stage) close() error {
	for _, f := range s.open {
		f.Close()
	}
	s.open = nil
	for _, ns := range []*os.File{s.userns, s.own} {
		if ns != nil {
			ns.Close()
		}
	}
	s.userns, s.own = nil, nil
	if s.path == "" {
		return nil
	}
	if err := unix.Unmount(s.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount staging area %s: %w", s.path, err)
	}
	prefix := s.path + "/"
	left, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		ours := m.FSType == "tmpfs" && m.Source == "gleaner" && m.Mountpoint == s.path
		return !ours && !(strings.HasPrefix(m.Mountpoint, prefix) && m.FSType == "overlay"), false
	})
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is still mounted", left[0].Mountpoint)
	}
	s.path = ""
	return nil
}

// cloneOptions say how a tree is cloned.
type cloneOptions struct {
	recursive   bool
	noAutomount bool
	idmap       bool     // if the file system supports it; otherwise as it is
	idmapAs     *os.File // likewise, with the map of this user namespace
	attr        uint64
}

// clone answers a detached copy of the mount at path, or below the open file.
func (s *stage) clone(path string, file *os.File, o cloneOptions) (*os.File, error) {
	at := unix.AT_FDCWD
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	target := path
	if file != nil {
		at, target = int(file.Fd()), ""
		flags |= unix.AT_EMPTY_PATH
	}
	if o.noAutomount {
		flags |= unix.AT_NO_AUTOMOUNT
	}
	depth := uint(0)
	if o.recursive {
		depth = unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(at, target, flags|depth)
	if err != nil {
		return nil, &os.PathError{Op: "clone the mount of", Path: path, Err: err}
	}
	tree := os.NewFile(uintptr(fd), path)
	// Private: what is mounted on the host later stays there.
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: o.attr, Propagation: unix.MS_PRIVATE})
	ids := o.idmapAs
	if o.idmap {
		ids = s.userns
	}
	if err == nil && ids != nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|depth, &unix.MountAttr{
			Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ids.Fd()),
		})
		// Some file systems (NFS, FUSE) and mounts that are idmapped already
		// cannot be. The user's own files are right without it; all others
		// look like nobody's.
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			err = nil
		}
	}
	if err != nil {
		tree.Close()
		return nil, &os.PathError{Op: "set attributes of the mount of", Path: path, Err: err}
	}
	s.open = append(s.open, tree)
	return tree, nil
}

// attach mounts a cloned tree in the stage and answers its path.
func (s *stage) attach(tree *os.File) (string, error) {
	isDir, err := isDirectory(tree)
	if err != nil {
		return "", err
	}
	return s.attachAs(tree, isDir)
}

// attachAs is attach for a tree that is known to be a directory, or a file: it asks
// no file system.
func (s *stage) attachAs(tree *os.File, isDir bool) (path string, err error) {
	path = filepath.Join(s.path, strconv.Itoa(s.count))
	s.count++
	if isDir {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("make mount point: %w", err)
	}
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		if stat, lookErr := look(tree, unix.STATX_NLINK); lookErr == nil && stat.Nlink == 0 {
			return "", fmt.Errorf("%s %w", tree.Name(), ErrDeleted)
		}
		return "", fmt.Errorf("mount a copy of %s on %s: %w", tree.Name(), path, err)
	}
	return path, nil
}

// within says whether path is dir or lies below it.
func within(path, dir string) bool {
	if dir == "/" {
		return true
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func holdsAny(dir string, paths []string) bool {
	for _, p := range paths {
		if p != "" && within(filepath.Clean(p), dir) {
			return true
		}
		if real, err := filepath.EvalSymlinks(p); err == nil && within(real, dir) {
			return true
		}
	}
	return false
}
