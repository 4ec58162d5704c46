package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A program that has just made a process with vfork(2), as shells do for each
// command, waits in the kernel until that has executed its own program. Stopped
// in this moment, neither can be saved: the one waits for the other, which
// stands. It is over in no time, so the job is let go for a little and stopped
// again.
const (
	vforkTries = 100
	vforkPause = 2 * time.Millisecond
)

// holdWhole stops the job where all of its processes can be saved.
func (p *part) holdWhole(ctx context.Context) error {
	for try := 0; ; try++ {
		if err := p.hold(ctx); err != nil {
			return fmt.Errorf("the job's processes can not be stopped: %w", errors.Join(err, survivors(p.group)))
		}
		pid, err := p.waitsInVfork()
		if err == nil && pid == 0 {
			return nil
		}
		if letErr := p.letGo(); err != nil || letErr != nil {
			return errors.Join(err, letErr)
		}
		if try >= vforkTries {
			return &notNowError{describeProcess(pid) + " waits for a process that it made with vfork, and that does not go on: it can be saved when it does"}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(vforkPause):
		}
	}
}

// waitsInVfork answers a process of the job that does, or 0.
func (p *part) waitsInVfork() (int, error) {
	pids, err := p.group.Procs()
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

// vforkPlaces are the kernel's functions in which such a program waits, over
// time.
var vforkPlaces = map[string]bool{"kernel_clone": true, "wait_for_vfork_done": true, "_do_fork": true, "do_fork": true}
