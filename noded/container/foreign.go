package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// foreignMounts answers the paths inside at which something is mounted that
// is not the container's own: its file system is also mounted outside, where
// this process sees it. They are not saved, and a restore mounts something at
// the same paths. The root, which is the first mount, is not among them.
func foreignMounts(pid int) ([]string, error) {
	outside, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	defer table.Close()
	inside, err := mountinfo.GetMountsFromReader(table, nil)
	if err != nil {
		return nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	return selectForeign(outside, inside), nil
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

// sources answers what to mount at each foreign path of an image, as a path
// that a root who is nobody outside can reach: each is attached to the stage by
// itself, below no directory that somebody has closed.
func (s *stage) sources(spec *Spec, a *assembled, image *Image) (map[string]string, error) {
	replaced, err := replacedDevices(spec, image)
	if err != nil {
		return nil, err
	}
	sources := make(map[string]string, len(image.Manifest.Mounts))
	for _, path := range image.Manifest.Mounts {
		below, options := "", cloneOptions{}
		switch {
		case slices.ContainsFunc(nodes, func(n node) bool { return n.path == path }):
			sources[path] = path
			continue
		case slices.Contains(maskedPaths, path):
			sources[path] = os.DevNull
			continue
		case path == initPath:
			below = filepath.Join(image.Dir, carriedInit)
		case replaced[path] != "":
			below = a.bound[replaced[path]]
		default:
			below = a.sourceOf(path)
		}
		if below == "" {
			return nil, fmt.Errorf("%w: something was mounted at %s that jobs on this node do not have", ErrMisfit, path)
		}
		if path == initPath {
			options = cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
		}
		tree, err := s.clone(below, nil, options)
		if err != nil {
			return nil, fmt.Errorf("%w: what was mounted at %s is not on this node: %w", ErrMisfit, path, err)
		}
		if sources[path], err = s.attach(tree); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// sourceOf answers where path can be found now: below the nearest of what is
// bound, or of what is mounted in the root. "" = nowhere.
func (a *assembled) sourceOf(path string) string {
	best, source := "", ""
	for target, from := range a.bound {
		if within(path, target) && len(target) > len(best) {
			best, source = target, filepath.Join(from, strings.TrimPrefix(path, target))
		}
	}
	for _, target := range a.shares {
		if within(path, target) && len(target) > len(best) {
			best, source = target, filepath.Join(a.root, path)
		}
	}
	return source
}

// replacedDevices answers, for each device of the image, the one that this
// container has in its place: as many, in the same order.
func replacedDevices(spec *Spec, image *Image) (map[string]string, error) {
	was := image.Manifest.Devices
	if len(was) != len(spec.Devices) {
		return nil, fmt.Errorf("%w: it had %d devices, and here it has %d", ErrMisfit, len(was), len(spec.Devices))
	}
	replaced := make(map[string]string, len(was))
	for i, path := range was {
		replaced[path] = filepath.Clean(spec.Devices[i].ContainerPath)
	}
	return replaced, nil
}
