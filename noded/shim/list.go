package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// List answers all parts on disk, in the order of job and epoch. Directories
// that a cut-off Launch left half made are removed.
func List(stateDir string) ([]*Handle, error) {
	parent := filepath.Join(stateDir, jobsDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the parts: %w", err)
	}
	var handles []*Handle
	var failures []error
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), newPrefix):
			failures = append(failures, removeTree(path))
		case entry.IsDir() && partName.MatchString(entry.Name()):
			h, err := open(directory(path))
			if errors.Is(err, os.ErrNotExist) && !exists(path) {
				continue // forgotten meanwhile
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", path, err))
				continue
			}
			handles = append(handles, h)
		}
	}
	slices.SortFunc(handles, func(a, b *Handle) int {
		x, y := a.order.Part, b.order.Part
		if x.Job != y.Job {
			return int(int64(x.Job) - int64(y.Job))
		}
		return int(int64(x.Epoch) - int64(y.Epoch))
	})
	return handles, errors.Join(failures...)
}

// DiscardUnreadable removes the parts that List cannot read: what holds their
// lock is killed, and what runs in their control group below cgroupParent. It
// is for a node whose daemon does not run. The error says what stays, and why.
func DiscardUnreadable(ctx context.Context, stateDir, cgroupParent string) error {
	parent := filepath.Join(stateDir, jobsDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the parts: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		d := directory(filepath.Join(parent, entry.Name()))
		switch {
		case strings.HasPrefix(entry.Name(), newPrefix):
			failures = append(failures, removeTree(string(d)))
		case !entry.IsDir() || !partName.MatchString(entry.Name()):
			failures = append(failures, fmt.Errorf("%s is no part of a job: remove it by hand", d))
		default:
			if _, err := open(d); err != nil {
				failures = append(failures, d.discard(ctx, cgroupParent))
			}
		}
	}
	return errors.Join(failures...)
}

func (d directory) discard(ctx context.Context, cgroupParent string) error {
	if locked(d.path(lockFile)) {
		if err := killHolder(d); err != nil {
			return err
		}
		if err := waitUntil(ctx, func() bool { return !locked(d.path(lockFile)) }); err != nil {
			return fmt.Errorf("%s: %w", d, ErrAlive)
		}
	}
	group := cgroup.New(path.Join(cgroupParent, d.id()), cgroup.Limits{})
	if err := group.Kill(ctx); err != nil {
		return fmt.Errorf("kill what is left of part %s: %w", d.id(), err)
	}
	if err := removeGroup(ctx, group); err != nil {
		return fmt.Errorf("clean up part %s: %w", d.id(), err)
	}
	if err := d.nothingMounted(); err != nil {
		return err
	}
	return removeTree(string(d))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
