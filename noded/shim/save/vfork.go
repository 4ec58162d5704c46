package save

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// A program that has just made a process with vfork(2), as shells do for each
// command, waits in the kernel until that process has executed its own program. If both
// are frozen at this moment, neither can be saved: the one waits for the other, which is
// frozen. The moment is short, so the job is thawed briefly and frozen again.
const (
	vforkTries = 100
	vforkPause = 2 * time.Millisecond
)

// freezeWhole freezes the job where all of its processes can be saved.
func (m *Maker) freezeWhole(ctx context.Context) error {
	for try := 0; ; try++ {
		if err := m.Freeze(ctx); err != nil {
			return fmt.Errorf("the job's processes cannot be frozen: %w", errors.Join(err, remove.Survivors(m.Group)))
		}
		pid, err := m.WaitsInVfork()
		if err == nil && pid == 0 {
			return nil
		}
		if thawErr := m.thaw(); err != nil || thawErr != nil {
			return errors.Join(err, thawErr)
		}
		if try >= vforkTries {
			return notNowError(remove.DescribeProcess(pid) + " waits for a process that it made with vfork, and that does not continue: save the job when it does")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(vforkPause):
		}
	}
}

// WaitsInVfork answers a process of the job that does, or 0.
func (m *Maker) WaitsInVfork() (int, error) {
	pids, err := m.Group.Procs()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/wchan")
		if err != nil {
			return 0, err
		}
		for _, thread := range threads {
			where, err := os.ReadFile(thread)
			if err == nil && vforkPlaces[string(where)] {
				return pid, nil
			}
		}
	}
	return 0, nil
}

// vforkPlaces are the functions of the kernel, of old and new ones, in which such a
// program waits.
var vforkPlaces = map[string]bool{"kernel_clone": true, "wait_for_vfork_done": true, "_do_fork": true, "do_fork": true}
