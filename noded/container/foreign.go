package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// foreignMounts answers the paths inside of mounts that are not the container's own:
// their file systems are also mounted outside, where
// this process sees them. They are not saved, and a restore mounts something at
// the same paths. The root, which is the first mount, is not among them.
func foreignMounts(pid int) ([]string, error) {
	outside, inside, err := mountTables(pid)
	if err != nil {
		return nil, err
	}
	return selectForeign(outside, inside), nil
}

// notSaved answers the paths inside of mounts that are not saved: those that are foreign,
// and those of plain file systems.
func (c *Container) notSaved() ([]string, error) {
	outside, inside, err := mountTables(c.Pid())
	if err != nil {
		return nil, err
	}
	foreign := selectForeign(outside, inside)
	plain, err := c.plainMounts(inside, foreign)
	if err != nil {
		return nil, err
	}
	mounts := append(foreign, plain...)
	slices.Sort(mounts)
	return mounts, nil
}

// mountTables answers what is mounted where this process is, and in the container of
// a process.
func mountTables(pid int) (outside, inside []*mountinfo.Info, err error) {
	if outside, err = mountinfo.GetMounts(nil); err != nil {
		return nil, nil, fmt.Errorf("read mounts: %w", err)
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	defer table.Close()
	if inside, err = mountinfo.GetMountsFromReader(table, nil); err != nil {
		return nil, nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	return outside, inside, nil
}

func selectForeign(outside, inside []*mountinfo.Info) []string {
	type device struct{ major, minor int }
	seen := make(map[device]bool, len(outside))
	for _, m := range outside {
		seen[device{m.Major, m.Minor}] = true
	}
	var foreign []string
	for _, m := range inside {
		if m.Mountpoint != "/" && seen[device{m.Major, m.Minor}] {
			foreign = append(foreign, m.Mountpoint)
		}
	}
	slices.Sort(foreign)
	return slices.Compact(foreign)
}

// source is what is mounted at a path of an image: a separate mount in the stage, not
// below a directory that somebody has closed, so that a root that is nobody outside
// can reach it.
type source struct {
	path  string
	isDir bool
	plain *os.File // the mount of a plain file system, in which places for mounts are made
}

// sources answers what to mount at each foreign path of an image. Root looks up no
// path of the image: at a path is what this container was
// given there, or otherwise what its user finds there without a link.
func (s *stage) sources(spec *Spec, a *assembled, image *Image) (map[string]source, error) {
	given, err := a.mounts()
	if err != nil {
		return nil, err
	}
	sources := make(map[string]source, len(image.Manifest.Mounts))
	for _, path := range image.Manifest.Mounts {
		options := cloneOptions{}
		switch {
		case isDevice(image.Manifest, path):
			// what it was given in its place
		case slices.ContainsFunc(nodes, func(n node) bool { return n.path == path }):
			sources[path] = source{path: path}
			continue
		case isPlainMount(path):
			if sources[path], err = s.makePlain(path); err != nil {
				return nil, err
			}
			continue
		case slices.Contains(maskedPaths, path):
			if _, err := os.Lstat(path); err != nil {
				return nil, misfit("mount "+path, "the kernel here has nothing there: "+err.Error(), "choose a node whose kernel has the same modules")
			}
			sources[path] = source{path: os.DevNull}
			continue
		}
		var tree *os.File
		if path == initPath {
			options = cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
			program := spec.InitPath
			if image.Dir != "" && !image.Spare[carriedInit] {
				program = filepath.Join(image.Dir, carriedInit)
			}
			tree, err = s.clone(program, nil, options)
		} else {
			var file *os.File
			if file, err = given.open(spec.User, path); err == nil {
				tree, err = s.clone(path, file, options)
				file.Close()
			}
		}
		if err != nil {
			return nil, misfit("mount "+path, "what was mounted there is not on this node: "+err.Error(), "mount it there, or choose a node that has it")
		}
		isDir := given.isDir(path)
		if !isDir {
			if isDir, err = isDirectory(tree); err != nil {
				return nil, misfit("mount "+path, err.Error(), "choose a node that has it")
			}
		}
		mounted, err := s.attachAs(tree, isDir)
		if err != nil {
			return nil, err
		}
		sources[path] = source{path: mounted, isDir: isDir}
	}
	return sources, nil
}

// givenMounts are what a container was given, by the paths inside.
type givenMounts struct {
	roots map[string]*os.File
	below map[string]*mountinfo.Info // what is mounted below and came with them
}

// mounts answers the mounts of the container as they are in the stage.
func (a *assembled) mounts() (*givenMounts, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	g := &givenMounts{roots: a.given, below: map[string]*mountinfo.Info{}}
	for _, info := range infos {
		inside := ""
		if within(info.Mountpoint, a.root) {
			inside = strings.TrimPrefix(info.Mountpoint, a.root)
		}
		for target, path := range a.bound {
			if within(info.Mountpoint, path) {
				inside = target + strings.TrimPrefix(info.Mountpoint, path)
			}
		}
		if inside != "" && a.given[inside] == nil {
			g.below[inside] = info // the last one is the one that is seen
		}
	}
	return g, nil
}

// isDir says whether a directory is known to be at a path. Looking at it is not
// allowed: its server may be away.
func (g *givenMounts) isDir(path string) bool {
	info := g.below[path]
	return info != nil && isNetwork(info.FSType)
}

// open answers what the container has at a path.
func (g *givenMounts) open(user User, path string) (*os.File, error) {
	if root := g.roots[path]; root != nil {
		return dup(root)
	}
	if info := g.below[path]; info != nil {
		return userpath.OpenMount(info.Mountpoint, info.ID)
	}
	above := ""
	for target := range g.roots {
		if within(path, target) && len(target) > len(above) {
			above = target
		}
	}
	if above == "" {
		return nil, errors.New("jobs here have nothing of the host's there")
	}
	return userpath.Beneath(user.Identity(), g.roots[above], strings.TrimPrefix(path, above))
}

func dup(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "duplicate", Path: file.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
