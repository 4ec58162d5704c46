package shim

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

// killPatience bounds one attempt to kill what is left in a part's group.
const killPatience = 5 * time.Second

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

func leftOver(path string, err error) error { return &LeftOver{Path: path, Err: err} }

// kept are the files that stay until a part is forgotten.
var kept = map[string]bool{
	orderFile: true, settingsFile: true, lockFile: true, socketFile: true, logFile: true, resultFile: true, resultDraft: true,
	savedFile: true, savedDraft: true,
}

// clean removes what the part's container was made of, once nothing runs in
// it. It touches nothing while something is mounted below the directory, here
// or in the mount table that is given with it.
func (d directory) clean(host *os.File) error {
	if err := nothingMounted(string(d), host); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return leftOver(string(d), err)
	}
	var failures []error
	for _, entry := range entries {
		if !kept[entry.Name()] {
			failures = append(failures, removeTree(d.path(entry.Name())))
		}
	}
	return errors.Join(failures...)
}

// remove removes the whole directory, which is no part from the first step on.
func (d directory) remove() error {
	if err := d.clean(nil); err != nil {
		return err
	}
	if err := removeGone(d.gone()); err != nil {
		return err
	}
	if err := os.Rename(string(d), d.gone()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return leftOver(string(d), err)
	}
	return removeGone(d.gone())
}

// removeGone removes a directory that is no part yet, or no more.
func removeGone(path string) error {
	if err := nothingMounted(path, nil); err != nil {
		return err
	}
	return removeTree(path)
}

// Discard removes a directory that never was a part, with what is in it. It
// fails, and removes nothing, while something is mounted at or below it.
func Discard(path string) error { return removeGone(path) }

// nothingMounted looks for mounts at and below path in this process's mount
// table, and in another one.
func nothingMounted(path string, other *os.File) error {
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
			return leftOver(mounts[0].Mountpoint, errors.New("something is mounted there: unmount it, the rest is done by the node"))
		}
	}
	return nil
}

// openHostMounts answers the mount table of the daemon that started this
// supervisor, whose own mount namespace does not show what the host mounts
// later. The table outlives the daemon.
func openHostMounts() (*os.File, error) {
	table, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", os.Getppid()))
	if err != nil { // it was killed meanwhile
		table, err = os.Open("/proc/1/mountinfo")
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's mounts: %w", err)
	}
	return table, nil
}

// removeGroup removes a part's control group, when it is there, with whatever
// runs in it: those are the job's processes, or root has put them there. While
// some do not die they are named.
func removeGroup(ctx context.Context, path string) error {
	group, err := cgroup.Open(path)
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return leftOver("cgroup "+path, err)
	}
	limited, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := group.Kill(limited); err != nil {
		return leftOver("cgroup "+path, errors.Join(survivors(group), err))
	}
	if err := removeEmptied(ctx, group); err != nil {
		return leftOver("cgroup "+path, err)
	}
	return nil
}

// removeEmptied removes an emptied group. The kernel may need a moment after
// the last process has gone.
func removeEmptied(ctx context.Context, group *cgroup.Group) error {
	deadline := time.Now().Add(exitPatience)
	for {
		err := group.Remove()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
