package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ProcessRoom answers how many processes and threads this kernel has room for.
func ProcessRoom() (int64, error) {
	room := int64(0)
	for _, setting := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + setting)
		if err != nil {
			return 0, fmt.Errorf("read kernel.%s: %w", setting, err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read kernel.%s: %w", setting, err)
		}
		if room == 0 || n < room {
			room = n
		}
	}
	return room, nil
}

// LimitProcesses bounds the processes and threads of the group parent, which
// exists, and of all groups below it together. What there is of them stays.
func LimitProcesses(parent string, most int64) error {
	directories, err := New(parent, Limits{}).present()
	if err != nil {
		return err
	}
	directory, ok := directories["pids"]
	if !ok {
		directory = directories[""]
	}
	if err := os.WriteFile(filepath.Join(directory, "pids.max"), []byte(strconv.FormatInt(most, 10)), 0o644); err != nil {
		return fmt.Errorf("limit the processes of cgroup %s: %w", parent, err)
	}
	return nil
}
