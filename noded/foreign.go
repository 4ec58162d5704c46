package noded

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// This file tells the processes of this machine that are Gleaner's, or the GPU driver's
// own, from all others. Anyone may choose the name of a process. So it is decided by what
// only root can arrange: the control group, and the file that is executed.

// driversOwn are programs that keep the GPUs open for their driver, and use none. They
// count where they are installed below /usr.
var driversOwn = []string{"nvidia-persistenced", "nvidia-powerd", "nv-hostengine", "dcgm"}

// ours knows Gleaner's processes.
type ours struct {
	groups  string // the jobs of all nodes of this machine have their groups below it
	program string // the path of this program
	file    fileID // that it executes
	mounts  string // the mount namespace of this program, which is the machine's
}

// fileID is a file, whatever its paths are.
type fileID struct{ device, inode uint64 }

func newOurs(cgroupParent string) (ours, error) {
	o := ours{groups: groupsOf(cgroupParent)}
	var err error
	if o.program, err = os.Executable(); err != nil {
		return o, err
	}
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &stat); err != nil {
		return o, &os.PathError{Op: "stat", Path: "/proc/self/exe", Err: err}
	}
	o.program, o.file = strings.TrimSuffix(o.program, deleted), fileID{stat.Dev, stat.Ino}
	o.mounts, err = os.Readlink("/proc/self/ns/mnt")
	return o, err
}

// groupsOf is below which group the jobs are of all nodes that this machine may be: the
// parent's own parent, if that is not the group of all processes.
func groupsOf(cgroupParent string) string {
	if above := path.Dir(cgroupParent); above != "/" && above != "." {
		return above
	}
	return cgroupParent
}

// foreignPIDs are the processes of this machine that are neither in a job's group, nor
// Gleaner's daemons and supervisors, nor the driver's own.
func foreignPIDs(cgroupParent string) ([]int, error) {
	o, err := newOurs(cgroupParent)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && o.isForeign(filepath.Join("/proc", entry.Name())) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isForeign reports whether a process runs that is none of those. dir is that of proc(5).
func (o *ours) isForeign(dir string) bool {
	program, _ := os.Readlink(filepath.Join(dir, "exe"))
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil || program == "" || inGroups(groups, o.groups) {
		return false // it has ended, is the kernel's, or a job's
	}
	var executed, process unix.Stat_t
	if unix.Stat(filepath.Join(dir, "exe"), &executed) != nil || unix.Stat(dir, &process) != nil {
		return false // it has ended
	}
	mounts, _ := os.Readlink(filepath.Join(dir, "ns", "mnt"))
	return !o.isGleaner(program, mounts, &executed, &process) && !o.isDrivers(program, mounts, &executed)
}

// inGroups reports whether a process is in a group below another one, by its line of one
// hierarchy at least: only root places it there.
func inGroups(lines []byte, parent string) bool {
	for line := range bytes.Lines(lines) {
		fields := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte(":"), 3)
		if len(fields) == 3 && bytes.HasPrefix(fields[2], []byte(parent+"/")) {
			return true
		}
	}
	return false
}

// deleted follows the path of a program whose file was replaced since it was started.
const deleted = " (deleted)"

// isGleaner reports whether root executes this program, or the one that was in its place
// before an upgrade.
func (o *ours) isGleaner(program, mounts string, executed, process *unix.Stat_t) bool {
	if process.Uid != 0 {
		return false
	}
	replaced := program == o.program+deleted && mounts == o.mounts && rootsAlone(executed)
	return fileID{executed.Dev, executed.Ino} == o.file || replaced
}

// isDrivers reports whether a process executes one of the driver's own programs: the file
// that is installed on the machine, or was until an upgrade.
func (o *ours) isDrivers(program, mounts string, executed *unix.Stat_t) bool {
	installed, replaced := strings.CutSuffix(program, deleted)
	if !strings.HasPrefix(installed, "/usr/") || !slices.Contains(driversOwn, path.Base(installed)) || !rootsAlone(executed) {
		return false
	}
	if replaced {
		return mounts == o.mounts
	}
	var stat unix.Stat_t
	return unix.Stat(installed, &stat) == nil && stat.Dev == executed.Dev && stat.Ino == executed.Ino
}

// rootsAlone reports whether only root can have written a file.
func rootsAlone(stat *unix.Stat_t) bool { return stat.Uid == 0 && stat.Mode&0o022 == 0 }
