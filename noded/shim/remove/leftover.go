// Package remove deletes what an allocation leaves: directory trees and control
// groups. It never follows a link and never enters another mount, whatever a job
// has made. It names what stays, with the reason and what to do (LeftOver).
// Every function may be called again.
package remove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// killPatience bounds one attempt to kill what is left in an allocation's group.
const killPatience = 5 * time.Second

// emptyPatience is how long the kernel may need to release an emptied group.
const emptyPatience = 3 * time.Second

// ErrLeftOver is returned, wrapped, when something could not be removed.
var ErrLeftOver = errors.New("could not be removed")

// LeftOver is the error of something that could not be removed. It wraps
// ErrLeftOver.
type LeftOver struct {
	Path string // of what is left, or of the control group
	Err  error  // why, and what to do
}

// Error implements error.
func (l *LeftOver) Error() string { return l.Path + " " + ErrLeftOver.Error() + ": " + l.Err.Error() }

// Unwrap makes errors.Is find ErrLeftOver, and the cause.
func (l *LeftOver) Unwrap() []error { return []error{ErrLeftOver, l.Err} }

func NewLeftOver(path string, err error) error { return &LeftOver{Path: path, Err: err} }

// Discard removes a directory with what is in it. It fails, and removes nothing,
// while something is mounted at or below it.
func Discard(path string) error {
	if err := NothingMounted(path, nil); err != nil {
		return err
	}
	return Tree(path)
}

// NothingMounted looks for mounts at and below path in this process's mount
// table, and in another one.
func NothingMounted(path string, other *os.File) error {
	// The kernel names mount points without links.
	if resolved, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(resolved, filepath.Base(path))
	}
	own, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	defer own.Close()
	for _, table := range []*os.File{own, other} {
		if table == nil {
			continue
		}
		if _, err := table.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read mounts: %w", err)
		}
		mounts, err := mountinfo.GetMountsFromReader(table, func(info *mountinfo.Info) (skip, stop bool) {
			return info.Mountpoint != path && !strings.HasPrefix(info.Mountpoint, path+"/"), false
		})
		if err != nil {
			return fmt.Errorf("read mounts: %w", err)
		}
		if len(mounts) > 0 {
			return NewLeftOver(mounts[0].Mountpoint, errors.New("something is mounted there: unmount it, the rest is done by the node"))
		}
	}
	return nil
}

// HostMounts answers the mount table of the daemon that started this
// supervisor, whose own mount namespace does not show what the host mounts
// later. The table outlives the daemon.
func HostMounts() (*os.File, error) {
	table, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", os.Getppid()))
	if err != nil { // it was killed meanwhile
		table, err = os.Open("/proc/1/mountinfo")
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's mounts: %w", err)
	}
	return table, nil
}

// Group removes an allocation's control group, if it is there, with whatever
// runs in it: the job's processes, or what root has put there. The error names those
// that do not die.
func Group(ctx context.Context, path string) error {
	group, err := cgroup.Open(path)
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return NewLeftOver("cgroup "+path, err)
	}
	limited, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := group.Kill(limited); err != nil {
		return NewLeftOver("cgroup "+path, errors.Join(Survivors(group), err))
	}
	if err := EmptiedGroup(ctx, group); err != nil {
		return NewLeftOver("cgroup "+path, err)
	}
	return nil
}

// EmptiedGroup removes an emptied group. The kernel may need a moment after
// the last process has gone.
func EmptiedGroup(ctx context.Context, group *cgroup.Group) error {
	deadline := time.Now().Add(emptyPatience)
	for {
		err := group.Remove()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// KillGroup kills what runs in a group, and names what does not die.
func KillGroup(ctx context.Context, group *cgroup.Group) error {
	limited, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := group.Kill(limited); err != nil {
		return NewLeftOver("cgroup "+group.Path(), errors.Join(Survivors(group), err))
	}
	return nil
}
