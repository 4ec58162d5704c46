package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// Needs are what a tree uses of what a kernel bounds for everybody. A machine with a
// lower bound cannot restore the tree.
type Needs struct {
	Number     int `json:"number,omitempty"`     // the highest of a process or a thread, inside
	Maps       int `json:"maps,omitempty"`       // the most that one process has
	Descriptor int `json:"descriptor,omitempty"` // the highest
	Watchers   int `json:"watchers,omitempty"`   // instances of inotify, of all processes
}

// NeedsOf answers what processes use. They must be frozen.
func NeedsOf(pids []int) (Needs, error) {
	var n Needs
	for _, pid := range pids {
		if err := n.add(pid); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return n, fmt.Errorf("see what process %d uses of the kernel: %w", pid, err)
		}
	}
	return n, nil
}

func (n *Needs) add(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		number, err := procstatus.Innermost(filepath.Join(dir, "task", task.Name()))
		if err != nil {
			return err
		}
		n.Number = max(n.Number, number)
	}
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		return err
	}
	n.Maps = max(n.Maps, strings.Count(string(maps), "\n"))
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		number, _ := strconv.Atoi(entry.Name())
		n.Descriptor = max(n.Descriptor, number)
		if target, err := os.Readlink(filepath.Join(dir, "fd", entry.Name())); err == nil && strings.HasPrefix(target, "anon_inode:inotify") {
			n.Watchers++
		}
	}
	return nil
}

// Limits are a machine's bounds of the same things; 0 = no bound.
type Limits Needs

// ThisLimits answers the limits of this machine and of what this process starts.
func ThisLimits() (Limits, error) {
	var l Limits
	for path, most := range map[string]*int{"kernel/pid_max": &l.Number, "vm/max_map_count": &l.Maps} {
		text, err := os.ReadFile("/proc/sys/" + path)
		if err != nil {
			return l, fmt.Errorf("see what the kernel lets a job have: %w", err)
		}
		if *most, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return l, fmt.Errorf("/proc/sys/%s: %w", path, err)
		}
	}
	l.Number-- // the first number that is not given
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return l, fmt.Errorf("read the limit of open files: %w", err)
	}
	l.Descriptor = int(min(files.Max, 1<<30)) - 1
	return l, nil
}

func (n Needs) fits(have Limits) (found []Misfit) {
	for _, row := range []struct {
		property, what string
		want, most     int
		remedy         string
	}{
		{"kernel.pid_max", "a process with the number %d", n.Number, have.Number, "choose a node with a higher one, or set it higher there (sysctl)"},
		{"vm.max_map_count", "a process with %d mappings", n.Maps, have.Maps, "choose a node with a higher one, or set it higher there (sysctl)"},
		{"open files", "a process with the descriptor %d", n.Descriptor, have.Descriptor, "choose a node with a higher limit, or let gnoded have more there (LimitNOFILE)"},
		{"inotify instances", "%d", n.Watchers, have.Watchers, "choose a node that lets a job have as many, or raise fs.inotify.max_user_instances there"},
	} {
		if row.most > 0 && row.want > row.most {
			found = append(found, Misfit{Property: row.property, Want: fmt.Sprintf(row.what, row.want), Have: fmt.Sprintf("at most %d can be", row.most), Remedy: row.remedy})
		}
	}
	return found
}
