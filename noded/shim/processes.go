package shim

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// A part may have a quarter of the processes and threads that the kernel has
// room for, so that a job which forks without end leaves room for the system
// and for other jobs, and at most mostProcesses, which is many for a job.
const (
	mostProcesses    = 131072
	processFraction  = 4
	fewProcesses     = 1024 // a job can live with
	unknownProcesses = 32768
)

// maxProcesses answers the limit of a part.
func (s *Settings) maxProcesses() int64 {
	if s.MaxProcesses > 0 {
		return s.MaxProcesses
	}
	room := min(kernelNumber("/proc/sys/kernel/pid_max"), kernelNumber("/proc/sys/kernel/threads-max"))
	return max(min(room/processFraction, mostProcesses), fewProcesses)
}

func kernelNumber(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknownProcesses
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return unknownProcesses
	}
	return n
}

// survivors is an error that names the processes of a group that do not die,
// or nil when there is none.
func survivors(group *cgroup.Group) error {
	pids, err := group.Procs()
	if err != nil || len(pids) == 0 {
		return nil
	}
	const named = 3
	var names []string
	for _, pid := range pids[:min(len(pids), named)] {
		names = append(names, describeProcess(pid))
	}
	if more := len(pids) - named; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("the kernel does not let go of %s: see whether a device or a file server that it waits for does not answer", strings.Join(names, ", "))
}

// describeProcess is like "process 4711 (python, state D in nfs_wait_bit)".
func describeProcess(pid int) string {
	text := fmt.Sprintf("process %d", pid)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return text
	}
	// The name is in brackets and may hold brackets itself.
	line := string(stat)
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open || end+2 >= len(line) {
		return text
	}
	text += " (" + clip(line[open+1:end]) + ", state " + line[end+2:end+3]
	if where, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil && len(where) > 1 {
		text += " in " + clip(string(where))
	}
	return text + ")"
}

// hasNoMemory says whether a process has begun to exit: then its memory is
// gone, which no process can feign.
func hasNoMemory(pid int) bool {
	sizes, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	return err == nil && strings.HasPrefix(string(sizes), "0 ")
}
