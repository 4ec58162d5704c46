package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// own tells what is in a container's own file systems, where nobody outside
// changes what is at a path.
type own struct {
	root   *os.File
	places *places
	mounts *foreignTable
}

func (c *Container) own() (*own, error) {
	places, err := c.places()
	if err != nil {
		return nil, err
	}
	mounts, err := readForeign(c.Pid())
	if err != nil {
		return nil, err
	}
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", c.Pid()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the container's root: %w", err)
	}
	return &own{root, places, mounts}, nil
}

// holds says whether a path inside leads, without a link, to a directory in one of the
// container's own file systems. For a removed directory, the one above it counts: CRIU
// makes there what was in it. holds asks no other file system.
func (o *own) holds(path string) bool {
	if !isPlain(path) || !o.places.own(filepath.Clean(path)) {
		return false
	}
	for dir := filepath.Dir(filepath.Clean(path)); ; dir = filepath.Dir(dir) {
		found, err := userpath.BeneathAsSelf(o.root, dir)
		if errors.Is(err, unix.ENOENT) && dir != "/" {
			continue
		}
		if err != nil {
			return false
		}
		id, err := userpath.MountID(found)
		found.Close()
		mount := o.mounts.inside[id]
		return err == nil && mount != nil && o.places.own(mount.Mountpoint)
	}
}

// isPlain says whether a path without links still leads to the same place after it is
// cleaned.
func isPlain(path string) bool {
	return filepath.IsAbs(path) && !slices.Contains(strings.Split(path, "/"), "..")
}

// own says whether a path lies in a file system that is saved with an image.
func (p *places) own(path string) bool {
	for _, m := range p.mounts {
		if within(path, m.path) {
			return m.place == placeOwn || m.path == "/"
		}
	}
	return false
}

// refuseNamed refuses an image if its restore would make something, or write to
// something, by a path in a file system that others reach too. The processes are frozen.
func (c *Container) refuseNamed(images string) error {
	named, err := checkpoint.NamedIn(images)
	if err != nil || len(named) == 0 {
		return err
	}
	own, err := c.own()
	if err != nil {
		return err
	}
	defer own.root.Close()
	var found []checkpoint.Obstacle
	for _, n := range named {
		if !own.holds(n.Path) {
			found = append(found, n.Obstacle)
		}
	}
	return checkpoint.Refuse(found)
}

// checkNamed refuses what refuseNamed can see in the image alone, whoever made it.
func (i *Image) checkNamed() error {
	named, err := checkpoint.NamedIn(filepath.Join(i.Dir, imageDir))
	if err != nil {
		return err
	}
	for _, n := range named {
		above := ""
		for _, mount := range i.Manifest.Mounts {
			if within(filepath.Clean(n.Path), mount) && len(mount) > len(above) {
				above = mount
			}
		}
		if !isPlain(n.Path) || above != "" && !isOwnMount(above) && !isPlainMount(above) {
			return fmt.Errorf("%w: %s", ErrMisfit, n.Obstacle)
		}
	}
	return nil
}
