package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
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
	left = append(left, leftGroups(directory)...)
	devices, _ := filepath.Glob(filepath.Join(directory, "nodes", "*", "dev", "*"))
	return append(left, devices...)
}

// leftGroups lists what is left of the control groups that the configurations
// of the cluster's nodes name, and of the one around them all.
func leftGroups(directory string) []string {
	configs, _ := filepath.Glob(filepath.Join(directory, "nodes", "*", "gnoded.toml"))
	if len(configs) == 0 {
		return []string{"no configuration of a node, which would name its control groups"}
	}
	var left []string
	for _, path := range configs {
		parent := cgroupParent(path)
		if parent == "" {
			return []string{path + " does not name its control group"}
		}
		for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			groups, _ := filepath.Glob(hierarchy + filepath.Dir(parent))
			left = append(left, groups...)
		}
	}
	return left
}

// cgroupParent is the control group that a node's configuration names, or "".
func cgroupParent(path string) string {
	var config struct {
		CgroupParent string `toml:"cgroup_parent"`
	}
	text, err := os.ReadFile(path)
	if err != nil || toml.Unmarshal(text, &config) != nil {
		return ""
	}
	return config.CgroupParent
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
