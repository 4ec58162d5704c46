package pid1

import (
	"fmt"
	"syscall"
)

// maxOpenFiles is the soft limit on descriptors: enough for any program, and
// few enough for those that close every possible one.
const maxOpenFiles = 65536

// lowerLimits lowers the soft limit on descriptors of this process and of all
// that it starts. The hard limit stays as it is, because raising it needs a right
// that not every root has. It is done from inside, because from outside it would
// need the same right.
func lowerLimits() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit.Cur = min(limit.Max, maxOpenFiles)
	// Only with this call, Go does not undo it for children.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("lower the limit of open files: %w", err)
	}
	return nil
}
