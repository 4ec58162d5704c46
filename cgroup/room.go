package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
	"github.com/opencontainers/cgroups/fscommon"
)

// Room answers how much memory, in bytes, the calling process can take before a
// limit of its own control group, or of one above, is met; math.MaxUint64 = there
// is none. What the kernel keeps of files counts as free. What the machine has
// left is another question.
func Room() (uint64, error) {
	directory, top, err := ownMemory()
	if err != nil {
		return 0, fmt.Errorf("find the memory limits of this process: %w", err)
	}
	room := uint64(math.MaxUint64)
	for directory != "" {
		here, err := roomOf(directory)
		if err != nil {
			return 0, fmt.Errorf("read the memory limits of this process: %w", err)
		}
		room = min(room, here)
		if directory == top {
			break
		}
		directory = filepath.Dir(directory)
	}
	return room, nil
}

// ownMemory answers the directory in which this process's memory is counted, and
// the top of its hierarchy; "" = nothing counts it.
func ownMemory() (directory, top string, err error) {
	if isV2() {
		paths, err := cgroups.ParseCgroupFile("/proc/self/cgroup")
		return filepath.Join(fs2.UnifiedMountpoint, paths[""]), fs2.UnifiedMountpoint, err
	}
	if top, err = cgroups.FindCgroupMountpoint("", "memory"); err == nil {
		directory, err = cgroups.GetOwnCgroupPath("memory")
	}
	if cgroups.IsNotFound(err) {
		return "", "", nil
	}
	return directory, top, err
}

// roomOf answers the same for the limit of one group.
func roomOf(directory string) (uint64, error) {
	limitFile, usedFile, lists := "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}
	if isV2() {
		limitFile, usedFile, lists = "memory.max", "memory.current", []string{"inactive_file", "active_file"}
	}
	limit, err := fscommon.GetCgroupParamUint(directory, limitFile)
	if errors.Is(err, os.ErrNotExist) { // v2's root, and where the controller is not passed on
		_, err = os.Stat(directory)
		return math.MaxUint64, err
	}
	if err != nil {
		return 0, err
	}
	used, err := fscommon.GetCgroupParamUint(directory, usedFile)
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		files, err := readKey(directory, "memory.stat", list)
		if err != nil {
			return 0, err
		}
		used -= min(files, used)
	}
	return limit - min(used, limit), nil
}
