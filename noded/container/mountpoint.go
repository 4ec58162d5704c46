package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// mountPoints finds and makes the places in a container's root at which something
// is mounted. It makes them only in the container's own file systems, which
// vanish with it: in one of the host's, its owner may have exchanged a link or a
// directory.
type mountPoints struct {
	s    *stage
	tops []topDir
	own  map[int]bool // mounts in which a mount point may be made
}

// topDir is a tree of the container's, and the path inside at which it is.
type topDir struct {
	path string
	file *os.File
}

// newPoints opens the root, and the directories in it over which libcontainer mounts:
// what is below them is mounted in those.
func (s *stage) newPoints(a *assembled) (*mountPoints, error) {
	root, err := os.OpenFile(a.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &mountPoints{s: s, own: map[int]bool{}, tops: []topDir{
		{"/tmp", a.given["/tmp"]}, {"/var/tmp", a.given["/var/tmp"]}, {"/", root},
	}}
	for _, top := range p.tops {
		if err := p.mayMake(top.file); err != nil {
			root.Close()
			return nil, err
		}
	}
	return p, nil
}

func (p *mountPoints) close() { p.tops[len(p.tops)-1].file.Close() }

// mayMake says that mount points may be made in the mount of a file.
func (p *mountPoints) mayMake(file *os.File) error {
	id, err := userpath.MountID(file)
	p.own[id] = err == nil
	return err
}

// find opens what is at a path inside.
func (p *mountPoints) find(path string, flags int, resolve uint64) (int, error) {
	for _, top := range p.tops {
		if within(path, top.path) {
			rest := strings.TrimPrefix(strings.TrimPrefix(path, top.path), "/")
			if rest == "" {
				rest = "."
			}
			return userpath.Openat2(int(top.file.Fd()), rest, unix.OpenHow{
				Flags:   uint64(unix.O_PATH | unix.O_CLOEXEC | flags),
				Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve,
			})
		}
	}
	return -1, fmt.Errorf("%s is no path inside", path)
}

// open is find, and makes what is missing: the host's directory may be in a file
// system that is not shown.
func (p *mountPoints) open(path string, isDir bool, resolve uint64) (int, error) {
	point, err := p.find(path, 0, resolve)
	if !errors.Is(err, unix.ENOENT) {
		return point, err
	}
	parent, err := p.open(filepath.Dir(path), true, resolve)
	if err != nil {
		return -1, err
	}
	above := os.NewFile(uintptr(parent), filepath.Dir(path))
	defer above.Close()
	if id, err := userpath.MountID(above); err != nil || !p.own[id] {
		return -1, errors.Join(fmt.Errorf("there is no %s, and it is not made in a file system of the host's", path), err)
	}
	name := filepath.Base(path)
	if isDir {
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil {
		return -1, err
	}
	if err := unix.Fchownat(parent, name, hostID(p.s.uids, 0), hostID(p.s.gids, 0), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return p.find(path, 0, resolve)
}

// makeLink makes a link in a directory that is the container's own.
func (p *mountPoints) makeLink(parent int, name, target string) error {
	if err := unix.Symlinkat(target, parent, name); err != nil {
		return err
	}
	return unix.Fchownat(parent, name, hostID(p.s.uids, 0), hostID(p.s.gids, 0), unix.AT_SYMLINK_NOFOLLOW)
}
