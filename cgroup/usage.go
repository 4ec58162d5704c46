package cgroup

import (
	"fmt"

	"github.com/opencontainers/cgroups/fscommon"
)

// Usage is what a group has consumed since it was created. A figure whose
// controller is missing is 0.
type Usage struct {
	PeakMemoryBytes    uint64 // most ever in use; the page cache of its files counts too
	CurrentMemoryBytes uint64
	FileBytes          uint64 // of CurrentMemoryBytes, what the kernel keeps of files and gives up when memory is short
	CPUNs              uint64 // user + system, of processes that have ended too
	OOMKills           uint64 // processes that the kernel killed at the group's memory limit
}

// Usage reads what the group has consumed. It is gone with the group, so read
// it before Remove. On v1 OOMKills does not count kills in groups below.
func (g *Group) Usage() (Usage, error) {
	directories, err := g.present()
	if err != nil {
		return Usage{}, err
	}
	var usage Usage
	var first error
	read := func(into *uint64, value uint64, err error) {
		switch {
		case err == nil:
			*into = value
		case !gone(err) && first == nil:
			first = fmt.Errorf("usage of cgroup %s: %w", g.path, err)
		}
	}
	number := func(into *uint64, controller, file string) {
		if directory, ok := directories[controller]; ok {
			value, err := fscommon.GetCgroupParamUint(directory, file)
			read(into, value, err)
		}
	}
	key := func(into *uint64, controller, file, key string) {
		if directory, ok := directories[controller]; ok {
			value, err := readKey(directory, file, key)
			read(into, value, err)
		}
	}
	files := func(into *uint64, controller string, lists ...string) {
		for _, list := range lists {
			var bytes uint64
			key(&bytes, controller, "memory.stat", list)
			*into += bytes
		}
	}
	if isV2() {
		number(&usage.PeakMemoryBytes, "", "memory.peak")
		number(&usage.CurrentMemoryBytes, "", "memory.current")
		files(&usage.FileBytes, "", "inactive_file", "active_file")
		key(&usage.OOMKills, "", "memory.events", "oom_kill")
		key(&usage.CPUNs, "", "cpu.stat", "usage_usec")
		usage.CPUNs *= 1000
	} else {
		number(&usage.PeakMemoryBytes, "memory", "memory.max_usage_in_bytes")
		number(&usage.CurrentMemoryBytes, "memory", "memory.usage_in_bytes")
		files(&usage.FileBytes, "memory", "total_inactive_file", "total_active_file")
		key(&usage.OOMKills, "memory", "memory.oom_control", "oom_kill")
		number(&usage.CPUNs, "cpuacct", "cpuacct.usage")
	}
	return usage, first
}

// readKey reads one value of a file of "key value" lines.
func readKey(directory, file, key string) (uint64, error) {
	return fscommon.GetValueByKey(directory, file, key)
}
