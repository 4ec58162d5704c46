package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// cloneDriver clones what a root that the user brings needs of the node's driver.
func (s *stage) cloneDriver(spec *Spec, c *cloned) error {
	if spec.Root == nil {
		return nil
	}
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for _, f := range spec.Root.Driver.Files {
		tree, err := s.clone(f.Outside, nil, cloneOptions{idmap: true, attr: attr})
		if err != nil {
			return fmt.Errorf("show the node's driver: %w", err)
		}
		c.layers = append(c.layers, layer{path: f.Inside, tree: tree, links: true})
	}
	return nil
}

// linkDriver makes the links that lead to them. A link of the image's gives way, because
// it leads to a driver of another version, if to any; a file of the image's stays.
func linkDriver(spec *Spec, points *mountPoints) error {
	for _, l := range spec.Root.Driver.Links {
		if err := points.link(l.Path, l.Target); err != nil {
			spec.log().Warn("a program may not find a library of the node's driver", "link", l.Path, "error", err)
		}
	}
	return nil
}

// link makes a link in the container's own file systems.
func (p *mountPoints) link(path, target string) error {
	parent, err := p.open(filepath.Dir(path), true, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(parent), filepath.Dir(path))
	defer dir.Close()
	if id, err := userpath.MountID(dir); err != nil || !p.own[id] {
		return errors.Join(fmt.Errorf("%s is a file system of the host's", dir.Name()), err)
	}
	name := filepath.Base(path)
	var stat unix.Stat_t
	switch err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && stat.Mode&unix.S_IFMT != unix.S_IFLNK:
		return nil
	case err == nil:
		if err := unix.Unlinkat(parent, name, 0); err != nil {
			return err
		}
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return p.makeLink(parent, name, target)
}
