package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// groupPatience bounds each step of the trial of control groups.
var groupPatience = 5 * time.Second

// trialGroup is where this examination makes its groups.
func (d *doctor) trialGroup() string {
	return path.Join(d.config.CgroupParent, fmt.Sprintf("doctor-%d", os.Getpid()))
}

// checkGroups makes a group, puts a process in, limits, freezes and kills it.
func (d *doctor) checkGroups(ctx context.Context) []finding.Finding {
	const name = "control groups"
	if !d.root {
		if info, err := cgroup.Detect(); err != nil {
			return []finding.Finding{badGroups(err)}
		} else if missing := missingControllers(info); len(missing) > 0 {
			return []finding.Finding{badControllers(info, missing, "")}
		}
		return needsRoot(name)
	}
	info, err := d.tryGroups(ctx)
	if err != nil {
		return []finding.Finding{badGroups(err)}
	}
	if missing := missingControllers(info); len(missing) > 0 {
		return []finding.Finding{badControllers(info, missing, d.config.CgroupParent)}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("%s with %s; a group below %s limits, freezes and kills, and its device rule holds",
		info.Version, strings.Join(info.Controllers, ", "), d.config.CgroupParent))}
}

func badGroups(err error) finding.Finding {
	fix := "mount them, on Debian by systemd: see mount | grep cgroup; in a container give it a writable /sys/fs/cgroup and the right to use it"
	switch {
	case errors.Is(err, cgroup.ErrOccupied):
		fix = "set cgroup_parent in gnoded.toml to a path that no service lives in, such as /gleaner/node"
	case errors.Is(err, cgroup.ErrNoFreezer):
		fix = "mount the freezer: mkdir -p /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer"
	case errors.Is(err, errDeviceRule):
		fix = "boot a kernel with CONFIG_CGROUP_BPF (v2) or CONFIG_CGROUP_DEVICE (v1)"
	}
	return finding.Bad("control groups", err.Error(), "jobs cannot be limited, nor kept to their own GPUs: gnoded refuses to start them", fix)
}

func badControllers(info cgroup.Info, missing []string, parent string) finding.Finding {
	where := "the machine"
	if parent != "" {
		where = "a group below " + parent
	}
	arguments := make([]string, len(missing))
	for i, controller := range missing {
		arguments[i] = "cgroup_enable=" + controller
	}
	return finding.Bad("control groups", fmt.Sprintf("%s; %s has %s, and not %s", info.Version, where, strings.Join(info.Controllers, ", "), strings.Join(missing, ", ")),
		"gnoded does not start", "add "+strings.Join(arguments, " ")+" to GRUB_CMDLINE_LINUX in /etc/default/grub; update-grub && reboot")
}

func missingControllers(info cgroup.Info) []string {
	needed := []string{"devices", "freezer", "memory", "pids"}
	return slices.DeleteFunc(needed, func(c string) bool { return slices.Contains(info.Controllers, c) })
}

// errDeviceRule is returned when a device that a group denies can be opened.
var errDeviceRule = errors.New("a process could open a device that its group denies")

// trialScript opens, in its group, a device that is denied; then it waits.
const trialScript = `read go; if (exec </dev/zero) 2>/dev/null; then echo open; else echo denied; fi; exec sleep 60`

// tryGroups makes the trial.
func (d *doctor) tryGroups(ctx context.Context) (_ cgroup.Info, err error) {
	parent := cgroup.New(d.trialGroup(), cgroup.Limits{})
	info, err := cgroup.Prepare(parent.Path())
	defer func() { err = errors.Join(err, parent.Remove()) }()
	if err != nil {
		return info, err
	}
	group := cgroup.New(path.Join(parent.Path(), "trial"), cgroup.Limits{
		CPUWeight: 1, MemoryBytes: 64 << 20, Pids: 64, DenyOtherDevices: true,
		Devices: []cgroup.Device{{Type: 'c', Major: 1, Minor: 3, Access: "rw"}}, // /dev/null
	})
	if err := group.Create(); err != nil {
		return info, err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), groupPatience)
		defer cancel()
		err = errors.Join(err, group.Kill(limited), group.Remove())
	}()
	return info, tryInGroup(ctx, group)
}

func tryInGroup(ctx context.Context, group *cgroup.Group) error {
	defer keepThread()()
	cmd := exec.Command("/bin/sh", "-c", trialScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := group.Add(cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		return fmt.Errorf("speak to a process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	answer, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("a process in a group of its own did not answer: %w", err)
	}
	if answer != "denied\n" {
		return errDeviceRule
	}
	limited, cancel := context.WithTimeout(ctx, groupPatience)
	defer cancel()
	if err := group.Freeze(limited); err != nil {
		return fmt.Errorf("freeze a group: %w", err)
	}
	if err := group.Kill(limited); err != nil { // also while frozen
		return fmt.Errorf("kill a group: %w", err)
	}
	return nil
}

// unified is where cgroup v2 is mounted on a machine without v1.
const unified = "/sys/fs/cgroup"

// rememberGroups notes which groups exist on the way to parent, and on v2
// which controllers they hand on. What it answers removes those that were not
// there, and puts the controllers back.
func rememberGroups(parent string) (restore func() error) {
	var existed, missing []string
	before := map[string][]string{}
	for group := parent; group != "/"; group = path.Dir(group) {
		if _, err := cgroup.Open(group); errors.Is(err, cgroup.ErrNotFound) {
			missing = append(missing, group)
		} else {
			existed = append(existed, group)
		}
	}
	for _, group := range append(existed, "/") {
		before[group] = handedOn(group)
	}
	return func() error {
		var failures []error
		for _, group := range missing { // the innermost first
			if _, err := cgroup.New(group, cgroup.Limits{}).RemoveEmpty(); err != nil {
				failures = append(failures, err)
			}
		}
		if _, err := cgroup.Open(parent); err == nil {
			return errors.Join(failures...) // it is in use, and so are its controllers
		}
		for _, group := range append(existed, "/") {
			for _, controller := range handedOn(group) {
				if !slices.Contains(before[group], controller) {
					// Refused where somebody has come to use it meanwhile.
					_ = os.WriteFile(filepath.Join(unified, group, "cgroup.subtree_control"), []byte("-"+controller), 0)
				}
			}
		}
		return errors.Join(failures...)
	}
}

func handedOn(group string) []string {
	text, err := os.ReadFile(filepath.Join(unified, group, "cgroup.subtree_control"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// keepThread keeps its caller on one thread of the kernel's until what it
// answers is called. A child with a Pdeathsig ends with the thread that made it,
// and a daemon's threads end when they have been another user's.
func keepThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
