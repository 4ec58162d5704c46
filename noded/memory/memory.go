// Package memory says how much memory this machine has, and how much of it
// programs can still take, in bytes. It asks the kernel each time and keeps
// nothing.
package memory

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Total is what the machine has.
func Total() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("find the memory of this machine: %w", err)
	}
	return uint64(info.Totalram) * uint64(info.Unit), nil
}

// Available is what programs can take before the machine swaps or kills: the
// kernel's own estimate, which counts the page cache that it can give up.
func Available() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return available(string(text))
}

func available(meminfo string) (uint64, error) {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kibibytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 44)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: MemAvailable: %w", err)
			}
			return kibibytes << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
