package container

import (
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// A plain file system is one in memory that holds nothing but places for mounts and the
// links of deviceLinks: only root's jobs can write to it, and most do not. CRIU would start
// three programs to archive it while the job stands still, and three to unpack it. So it is
// left out of the image, and Restore makes it.

// plainDirs are where such a file system may be; directories in maskedPaths are others.
var plainDirs = []string{"/dev", "/run"}

// deviceLinks answers the links that libcontainer makes in /dev.
func deviceLinks() map[string]string {
	links := map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/ptmx": "pts/ptmx",
		"/dev/stderr": "/proc/self/fd/2", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
	}
	if _, err := os.Stat("/proc/kcore"); err == nil { // not every kernel has it
		links["/dev/core"] = "/proc/kcore"
	}
	return links
}

// memoryDirs are the file systems that CRIU makes in a plain one.
var memoryDirs = []string{"/dev/mqueue", "/dev/pts", "/dev/shm"}

// plainMounts answers where a container has plain file systems. foreign are the mounts
// that are not its own.
func (c *Container) plainMounts(inside []*mountinfo.Info, foreign []string) ([]string, error) {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", c.Pid()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the container's mounts: %w", err)
	}
	defer root.Close()
	seen := make(map[string]int, len(inside))
	for _, m := range inside {
		seen[m.Mountpoint]++
	}
	var plain []string
	for _, m := range inside {
		at := m.Mountpoint
		isMask := slices.Contains(maskedPaths, at)
		if m.FSType != "tmpfs" || m.Root != "/" || seen[at] != 1 || slices.Contains(foreign, at) || !isMask && !slices.Contains(plainDirs, at) {
			continue
		}
		p := plainCheck{root: root, links: deviceLinks(), uid: hostID(c.stage.uids, 0), gid: hostID(c.stage.gids, 0)}
		for mount := range seen {
			if mount != at && within(mount, at) {
				p.mounts = append(p.mounts, mount)
			}
		}
		known := !slices.ContainsFunc(p.mounts, func(mount string) bool {
			return !slices.Contains(foreign, mount) && !slices.Contains(memoryDirs, mount)
		})
		if !known {
			continue
		}
		switch holds, err := p.holds(at); {
		case err != nil:
			return nil, fmt.Errorf("look at the container's %s: %w", at, err)
		case holds && (at != "/dev" || len(p.links) == 0):
			plain = append(plain, at)
		}
	}
	return plain, nil
}

// plainCheck looks at one file system.
type plainCheck struct {
	root     *os.File          // of the container
	uid, gid int               // of the container's root
	mounts   []string          // below it
	links    map[string]string // that were not seen yet
}

// holds says whether a directory is as Restore would make it.
func (p *plainCheck) holds(dir string) (bool, error) {
	fd, err := userpath.Openat2(int(p.root.Fd()), dir, unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false, err
	}
	file := os.NewFile(uintptr(fd), dir)
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || !p.isOurs(&stat) || stat.Mode&0o7777 != plainMode(dir) {
		return false, err
	}
	names, err := file.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if known, err := p.knows(fd, path.Join(dir, name)); !known || err != nil {
			return false, err
		}
	}
	return true, nil
}

// knows says whether what is at a path in an open directory is one of the known things.
func (p *plainCheck) knows(dir int, at string) (bool, error) {
	if slices.Contains(p.mounts, at) {
		return true, nil
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, path.Base(at), &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || !p.isOurs(&stat) {
		return false, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if !slices.ContainsFunc(p.mounts, func(mount string) bool { return within(mount, at) }) {
			return false, nil
		}
		return p.holds(at)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, path.Base(at), target)
		if err != nil || p.links[at] != string(target[:n]) {
			return false, err
		}
		delete(p.links, at)
		return true, nil
	}
	return false, nil
}

// plainMode answers the mode of a directory in a plain file system.
func plainMode(at string) uint32 {
	if slices.Contains(maskedPaths, at) {
		return unix.S_ISVTX | 0o777 // what the kernel gives the root of a tmpfs
	}
	return 0o755
}

func (p *plainCheck) isOurs(stat *unix.Stat_t) bool {
	return int(stat.Uid) == p.uid && int(stat.Gid) == p.gid
}

// isPlainMount says whether a path of an image's mounts is that of a plain file system.
// The configuration binds nothing of the host's there. What is masked and no directory has
// a device at its path: see sources.
func isPlainMount(at string) bool {
	return slices.Contains(plainDirs, at) || slices.Contains(maskedPaths, at) && isDirNow(at)
}

// makePlain makes a plain file system in the stage, without what is mounted in it. It is as
// large as the one that Start makes: root's job may write to it.
func (s *stage) makePlain(at string) (source, error) {
	size, attr := "4k", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV
	switch at {
	case "/dev":
		size = devSize
	case "/run":
		size = runSize
	default:
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	tree, err := s.newTmpfs(at, plainMode(at), size, attr)
	if err != nil {
		return source{}, fmt.Errorf("make %s: %w", at, err)
	}
	mounted, err := s.attachAs(tree, true)
	return source{path: mounted, isDir: true, plain: tree}, err
}

// leavePlain unmounts the plain file systems from the stage after CRIU has mounted them in
// the container. From then on they are the container's own, as after Start.
func leavePlain(sources map[string]source) error {
	for at, from := range sources {
		if from.plain == nil {
			continue
		}
		if err := unix.Unmount(from.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("leave %s to the container: %w", at, err)
		}
	}
	return nil
}

// addPlain lets mount points be made in a plain file system, and fills it: with the links
// of /dev, and places for what CRIU mounts.
func (p *mountPoints) addPlain(at string, file *os.File) error {
	if err := p.mayMake(file); err != nil {
		return err
	}
	p.tops = append([]topDir{{at, file}}, p.tops...)
	for _, dir := range memoryDirs {
		if within(dir, at) {
			point, err := p.open(dir, true, unix.RESOLVE_NO_SYMLINKS)
			if err != nil {
				return err
			}
			unix.Close(point)
		}
	}
	for link, target := range deviceLinks() {
		if !within(link, at) {
			continue
		}
		parent, err := p.find(at, 0, unix.RESOLVE_NO_SYMLINKS)
		if err != nil {
			return err
		}
		err = p.makeLink(parent, path.Base(link), target)
		unix.Close(parent)
		if err != nil {
			return err
		}
	}
	return nil
}
