package scenario

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// leftOvers lists what a cluster left behind: processes that have its
// directory on their command line, mounts below it, cgroups and device files.
func leftOvers(directory string) []string {
	var left []string
	commandLines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commandLines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), directory) {
			left = append(left, "process "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, directory) {
				left = append(left, "mount "+strings.TrimSpace(line))
			}
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/gleaner-dev-%08x", "/sys/fs/cgroup/*/gleaner-dev-%08x"} {
		groups, _ := filepath.Glob(fmt.Sprintf(pattern, crc32.ChecksumIEEE([]byte(directory))))
		left = append(left, groups...)
	}
	devices, _ := filepath.Glob(filepath.Join(directory, "nodes", "*", "dev", "*"))
	return append(left, devices...)
}

// removeAll deletes a cluster's directory, but never on another file system
// than its own: a forgotten mount below it must survive.
func removeAll(directory string) error {
	var root syscall.Stat_t
	if err := syscall.Lstat(directory, &root); err != nil {
		return err
	}
	err := filepath.WalkDir(directory, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var here syscall.Stat_t
		if err := syscall.Lstat(path, &here); err != nil {
			return err
		}
		if here.Dev != root.Dev {
			return fmt.Errorf("%s is mounted", path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(directory)
}
