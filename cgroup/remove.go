package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// Remove removes the group and the groups below it from all hierarchies. A
// group that does not exist is no error. When processes remain it removes
// nothing and returns an error wrapping ErrBusy.
func (g *Group) Remove() error {
	pids, err := g.Procs()
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("remove cgroup %s: %w: %d, first %d", g.path, ErrBusy, len(pids), pids[0])
	}
	directories, err := g.present()
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, directory := range directories {
		err := cgroups.RemovePath(directory)
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("remove cgroup %s: %w", g.path, err))
		}
	}
	return errors.Join(failed...)
}

// RemoveEmpty removes the group from all hierarchies where it has neither
// processes nor groups below it, and leaves the others alone. It says whether
// nothing is left. It is for parents that several callers share.
func (g *Group) RemoveEmpty() (removed bool, err error) {
	directories, err := g.present()
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	removed = true
	for _, directory := range directories {
		switch err := unix.Rmdir(directory); {
		case err == nil || gone(err):
		case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY):
			removed = false
		default:
			return false, fmt.Errorf("remove cgroup %s: %w", g.path, err)
		}
	}
	return removed, nil
}

// List answers the names of the groups directly below parent, ascending,
// united over the hierarchies. A parent that does not exist has none.
func List(parent string) ([]string, error) {
	directories, err := New(parent, Limits{}).present()
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, directory := range directories {
		entries, err := os.ReadDir(directory)
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("list cgroups below %s: %w", filepath.Clean(parent), err)
		}
		for _, entry := range entries {
			if entry.IsDir() {
				names[entry.Name()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
