package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// Procs answers the ids of all processes in the group and in groups below it,
// ascending. On v1 it is the union over the hierarchies, so that a process on
// its way into the group, or half out of it, is found too. Processes that the
// caller's pid namespace does not show are left out.
func (g *Group) Procs() ([]int, error) {
	directories, err := g.present()
	if err != nil {
		return nil, err
	}
	var all []int
	for _, directory := range directories {
		pids, err := cgroups.GetAllPids(directory)
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", g.path, err)
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(pid int) bool { return pid <= 0 }), nil
}

// Signal sends sig once to every process of the group. Processes that come or
// go meanwhile may be missed. The error is the first that a process refused
// with; a process that has gone is none.
func (g *Group) Signal(sig syscall.Signal) error {
	return g.SignalThose(sig, func(int) bool { return true })
}

// SignalThose is Signal for the processes that wanted says yes to. It is asked
// about numbers. Each is that of a process of the group, or of one that has ended and
// no longer gets a signal.
func (g *Group) SignalThose(sig syscall.Signal, wanted func(pid int) bool) error {
	before, err := g.Procs()
	if err != nil || len(before) == 0 {
		return err
	}
	// A number may be given to another process between listing and
	// signalling. A descriptor cannot; and since the list is read again after
	// it was opened, it is a process of this group or one that has ended.
	descriptors := make(map[int]int, len(before))
	defer func() {
		for _, fd := range descriptors {
			_ = unix.Close(fd)
		}
	}()
	var first error
	for _, pid := range before {
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			descriptors[pid] = fd
		case !ended(err) && first == nil:
			first = fmt.Errorf("signal process %d of cgroup %s: %w", pid, g.path, err)
		}
	}
	after, err := g.Procs()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, pid := range after {
		fd, ok := descriptors[pid]
		if !ok || !wanted(pid) {
			continue
		}
		err := unix.PidfdSendSignal(fd, sig, nil, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) && first == nil {
			first = fmt.Errorf("signal process %d of cgroup %s: %w", pid, g.path, err)
		}
	}
	return first
}

// ended says that there is no longer such a process. Older kernels, such as 6.1,
// answer EINVAL while the number is still that of a session or a process group.
func ended(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) }

// Pauses between the passes of Kill and Freeze.
const (
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// freezeAgain is how long a freeze may take before it is begun again.
const freezeAgain = 250 * time.Millisecond

// Kill sends SIGKILL until the group is empty. It returns nil when nothing is
// left, also when the group does not exist, and an error wrapping ErrBusy and
// the context's own when processes remain at the context's end: the kernel
// keeps a process that waits uninterruptibly. A frozen group is
// thawed once its processes have the signal, and is left thawed.
func (g *Group) Kill(ctx context.Context) error {
	if empty, err := g.empty(); empty || err != nil {
		return err // as a rule the processes have ended
	}
	for pass, pause := 0, firstPause; ; pass++ {
		if err := g.killOnce(pass > 0); err != nil {
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}
		pids, err := g.Procs()
		if errors.Is(err, ErrNotFound) || (err == nil && len(pids) == 0) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup %s: %w: %d survive SIGKILL, first %d: %w",
				g.path, ErrBusy, len(pids), pids[0], ctx.Err())
		case <-time.After(pause):
		}
		pause = min(pause*2, lastPause)
	}
}

// empty says whether the group has no process, or does not exist.
func (g *Group) empty() (bool, error) {
	pids, err := g.Procs()
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return err == nil && len(pids) == 0, err
}

// killOnce is one pass of Kill. With stop set the v1 freezer holds the
// processes while they are signalled, so that no fork escapes the pass.
func (g *Group) killOnce(stop bool) error {
	directories, err := g.present()
	if err != nil {
		return err
	}
	if unified, ok := directories[""]; ok {
		// The kernel's own kill is atomic and reaches frozen processes. It is
		// older than some kernels, and on v1 machines only an addition.
		_ = writeFile(unified, "cgroup.kill", "1")
	}
	if stop {
		_ = setFrozen(directories, true)
	}
	err = g.Signal(unix.SIGKILL)
	// Also after an error: a frozen process cannot die.
	thawErr := setFrozen(directories, false)
	if err != nil {
		return err
	}
	if thawErr != nil && !gone(thawErr) && !errors.Is(thawErr, ErrNoFreezer) {
		return fmt.Errorf("thaw cgroup %s to kill it: %w", g.path, thawErr)
	}
	return nil
}

// Freeze freezes all processes of the group and returns when all are frozen.
// If the context ends first, Freeze thaws the group again and returns the context's
// error. Processes that enter a frozen group freeze too.
func (g *Group) Freeze(ctx context.Context) error {
	directories, err := g.present()
	if err != nil {
		return err
	}
	again := time.Now().Add(freezeAgain)
	for pause := firstPause; ; pause = min(pause*2, lastPause) {
		// It is written again in each pass: v1 can miss a process that was forked
		// while it froze the others. And where one process waits in the kernel for
		// another that is frozen already, only a brief thaw of both helps.
		if time.Now().After(again) {
			if err := setFrozen(directories, false); err != nil {
				return fmt.Errorf("freeze cgroup %s: %w", g.path, err)
			}
			time.Sleep(firstPause)
			again = time.Now().Add(freezeAgain)
		}
		if err := setFrozen(directories, true); err != nil {
			return fmt.Errorf("freeze cgroup %s: %w", g.path, err)
		}
		frozen, err := isFrozen(directories)
		if err != nil {
			return fmt.Errorf("freeze cgroup %s: %w", g.path, err)
		}
		if frozen {
			return nil
		}
		select {
		case <-ctx.Done():
			thawErr := setFrozen(directories, false)
			return fmt.Errorf("freeze cgroup %s: %w", g.path, errors.Join(ctx.Err(), thawErr))
		case <-time.After(pause):
		}
	}
}

// Thaw lets the processes of a frozen group run. On a group that is not
// frozen it does nothing.
func (g *Group) Thaw(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	directories, err := g.present()
	if err != nil {
		return err
	}
	if err := setFrozen(directories, false); err != nil {
		return fmt.Errorf("thaw cgroup %s: %w", g.path, err)
	}
	return nil
}

// Frozen says whether all processes of the group are frozen. A group that is being
// frozen is not frozen yet.
func (g *Group) Frozen() (bool, error) {
	directories, err := g.present()
	if err != nil {
		return false, err
	}
	frozen, err := isFrozen(directories)
	if err != nil {
		return false, fmt.Errorf("see whether cgroup %s is frozen: %w", g.path, err)
	}
	return frozen, nil
}

// FreezerDirectory answers the directory of the kernel's files that freeze the group,
// for programs that do it themselves.
func (g *Group) FreezerDirectory() (string, error) {
	directories, err := g.present()
	if err != nil {
		return "", err
	}
	for _, controller := range []string{"freezer", ""} {
		if directory, ok := directories[controller]; ok {
			return directory, nil
		}
	}
	return "", fmt.Errorf("cgroup %s: %w", g.path, ErrNoFreezer)
}

// setFrozen asks the kernel to freeze or thaw, and does not wait.
func setFrozen(directories map[string]string, frozen bool) error {
	if directory, ok := directories["freezer"]; ok {
		state := cgroups.Thawed
		if frozen {
			state = cgroups.Frozen
		}
		return writeFile(directory, "freezer.state", string(state))
	}
	if directory, ok := directories[""]; ok {
		state := "0"
		if frozen {
			state = "1"
		}
		return writeFile(directory, "cgroup.freeze", state)
	}
	return ErrNoFreezer
}

// isFrozen says whether all processes are frozen.
func isFrozen(directories map[string]string) (bool, error) {
	if directory, ok := directories["freezer"]; ok {
		text, err := os.ReadFile(filepath.Join(directory, "freezer.state"))
		return string(text) == string(cgroups.Frozen)+"\n", err
	}
	value, err := readKey(directories[""], "cgroup.events", "frozen")
	return value == 1, err
}

// writeFile writes a control file that must exist.
func writeFile(directory, name, text string) error {
	f, err := os.OpenFile(filepath.Join(directory, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// gone says whether err means that the group was removed meanwhile.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
