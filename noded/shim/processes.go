package shim

import (
	"os"
	"strconv"
	"strings"
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
