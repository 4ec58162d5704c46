package container

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// layer is something that is mounted in the container's root before libcontainer
// sees that root: a file system of the host, a directory that the configuration binds
// or hides, or one of the user's own. The library would look into each source that
// it gets. Then a file server that is away would hold up every start on the
// node, even of jobs that do not need it. The library would also look as the container's
// root, which may not enter what other people have closed, and it would resolve
// each path once more.
type layer struct {
	path string   // inside
	tree *os.File // nil = hidden: an empty file system of its own
	// directory: it is known to be one, and must not be looked at.
	directory bool
	// links: the path is an administrator's, and may lead through links.
	links bool
	// chosen: by the job's user, whose fault it is if it cannot be mounted.
	chosen bool
	// of is a file system of the host. The job did not ask for it, and starts
	// without it if it cannot be mounted.
	of *hostMount
}

// cloneLayers clones what is mounted in the root, parents first. It looks at nothing
// inside.
func (s *stage) cloneLayers(spec *Spec, mounts []hostMount, c *cloned) error {
	log := spec.log()
	for _, m := range mounts {
		t, err := s.cloneMount(m)
		if err != nil {
			skipped(log, m, err)
			continue
		}
		c.layers = append(c.layers, layer{path: m.path, tree: t, directory: m.network, of: &m})
	}
	for _, path := range spec.Binds {
		if isPrivate(path) {
			continue // libcontainer's
		}
		t, err := s.clone(path, nil, cloneOptions{recursive: true, idmap: true, attr: unix.MOUNT_ATTR_NOSUID})
		if err != nil {
			return err
		}
		c.layers = append(c.layers, layer{path: filepath.Clean(path), tree: t, links: true})
	}
	if err := s.cloneDriver(spec, c); err != nil {
		return err
	}
	for _, path := range existing(nameServices) {
		if isPrivate(path) || spec.Root != nil {
			continue
		}
		t, err := s.clone(path, nil, cloneOptions{recursive: true, attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		if err != nil {
			return err
		}
		c.layers = append(c.layers, layer{path: path, tree: t})
	}
	for _, path := range existing(spec.HideDirs) {
		if path = filepath.Clean(path); !isPrivate(path) && spec.Root == nil { // an image has nothing of the host's
			c.layers = append(c.layers, layer{path: path, links: true})
		}
	}
	supplied := map[string]string{}
	var err error
	if spec.Root == nil {
		supplied, err = accountFiles(spec, readAccounts)
	}
	if err != nil {
		return err
	}
	if supplied[hostsPath], err = hostsFile(spec); err != nil {
		return err
	}
	for target, path := range supplied {
		t, err := s.clone(path, nil, cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_RDONLY})
		if err != nil {
			return err
		}
		c.layers = append(c.layers, layer{path: target, tree: t, links: true})
	}
	if err := s.cloneOwn(spec, mounts, c); err != nil {
		return err
	}
	slices.SortStableFunc(c.layers, func(a, b layer) int { return strings.Compare(a.path+"/", b.path+"/") })
	return nil
}

// cloneMount clones a file system of the host if it is still at its path: below
// a user's directory, something else may be there by now.
func (s *stage) cloneMount(m hostMount) (*os.File, error) {
	file, err := userpath.OpenMount(m.path, m.id)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	o := cloneOptions{recursive: m.network, idmap: !m.network || m.system, noAutomount: true}
	if !m.system {
		o.attr = unix.MOUNT_ATTR_NOSUID
	}
	return s.clone(m.path, file, o)
}

// skipped tells of a file system of the host that a job starts without: it did
// not ask for it. Users mount and unmount theirs at any time.
func skipped(log *slog.Logger, m hostMount, err error) {
	if m.users {
		log.Debug("what a user has mounted is not shown to the job", "mount", m.path, "type", m.kind, "error", err)
		return
	}
	log.Warn("a file system of the node is not shown to the job: look at it on the node", "mount", m.path, "type", m.kind, "error", err)
}

// mountLayers mounts them, parents first, each at its path below the root, or in
// the job's own /tmp.
func (s *stage) mountLayers(spec *Spec, a *assembled, layers []layer) error {
	points, err := s.newPoints(a)
	if err != nil {
		return err
	}
	defer points.close()
	for _, l := range layers {
		err := s.mountLayer(points, &l)
		switch {
		case err == nil:
			a.given[l.path] = l.tree
		case l.of != nil:
			skipped(spec.log(), *l.of, err)
		case l.chosen:
			return chosen(l.path, err)
		default:
			return err
		}
	}
	if spec.Root != nil {
		return linkDriver(spec, points) // supplyUserRoot has supplied the resolver's settings, and it has the commands at CommandsInside
	}
	return errors.Join(linkCommands(spec, points), supplyResolver(spec, points))
}

func (s *stage) mountLayer(points *mountPoints, l *layer) error {
	isDir := l.directory || l.tree == nil
	if !isDir {
		var err error
		if isDir, err = isDirectory(l.tree); err != nil {
			return err
		}
	}
	resolve := uint64(unix.RESOLVE_NO_SYMLINKS)
	if l.links {
		resolve = 0
	}
	if l.tree == nil {
		return s.hide(points, l, resolve)
	}
	point, err := points.open(l.path, isDir, resolve)
	if err != nil {
		return fmt.Errorf("make the mount point of %s: %w", l.path, err)
	}
	defer unix.Close(point)
	err = unix.MoveMount(int(l.tree.Fd()), "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		if stat, lookErr := look(l.tree, unix.STATX_NLINK); lookErr == nil && stat.Nlink == 0 {
			return fmt.Errorf("%s %w", l.tree.Name(), ErrDeleted)
		}
		return fmt.Errorf("mount a copy of %s in the container's root: %w", l.path, err)
	}
	return nil
}

// hide mounts an empty directory over one, if it is there. It makes the mount points of
// what is mounted below it later.
func (s *stage) hide(points *mountPoints, l *layer, resolve uint64) error {
	point, err := points.find(l.path, unix.O_DIRECTORY, resolve)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", l.path, err)
	}
	defer unix.Close(point)
	if l.tree, err = s.newTmpfs(l.path, 0o755, "64k", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return fmt.Errorf("hide %s: %w", l.path, err)
	}
	if err := unix.MoveMount(int(l.tree.Fd()), "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("hide %s: %w", l.path, err)
	}
	return points.mayMake(l.tree)
}

// newTmpfs makes a file system in memory, of the container's root, which is not mounted yet.
func (s *stage) newTmpfs(name string, mode uint32, size string, attr int) (*os.File, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for _, option := range [][2]string{
		{"source", "gleaner"}, {"mode", fmt.Sprintf("%04o", mode)}, {"size", size},
		{"uid", strconv.Itoa(hostID(s.uids, 0))}, {"gid", strconv.Itoa(hostID(s.gids, 0))},
	} {
		if err := unix.FsconfigSetString(fd, option[0], option[1]); err != nil {
			return nil, err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, err
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, err
	}
	tree := os.NewFile(uintptr(mount), name)
	s.open = append(s.open, tree)
	return tree, nil
}

// isDirectory says whether a tree is a directory; otherwise it is a file. It asks the
// file system, so it is not for those that users mount.
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
