package cgroup

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
)

// Any stands for every major or minor number in a Device.
const Any = int64(devices.Wildcard)

// Device is a device, or a range of devices, that a group's processes may use.
type Device struct {
	Type   rune   // 'c' character, 'b' block
	Major  int64  // or Any
	Minor  int64  // or Any
	Access string // of "r" read, "w" write, "m" mknod
}

// Limits says what a group's processes may use. The zero value limits nothing.
type Limits struct {
	// CPUs are the ids of the CPUs they may run on; empty = all.
	CPUs []int
	// CPUWeight is the group's share of contended CPU time, as a number of CPUs;
	// 0 = the number of CPUs, or the kernel's default.
	CPUWeight int
	// MemoryBytes bounds memory and swap together; 0 = no limit.
	MemoryBytes uint64
	// Pids bounds processes and threads together; 0 = no limit.
	Pids int64
	// Devices is the whole list of devices they may open when
	// DenyOtherDevices is set, and means nothing otherwise.
	Devices          []Device
	DenyOtherDevices bool
}

func (l Limits) clone() Limits {
	l.CPUs = slices.Clone(l.CPUs)
	l.Devices = slices.Clone(l.Devices)
	return l
}

// sharesPerCPU is the kernel's default of cpu.shares, and maxShares its
// maximum. On v2 the maximum of cpu.weight is 10000; the weight of one CPU
// leaves room for 500. The library's conversion of shares is not proportional: it
// gives eight CPUs five times the weight of one.
const (
	sharesPerCPU = 1024
	maxShares    = 1 << 18
	weightPerCPU = 20
	maxWeight    = 10000
)

// resources says the limits in the library's words.
func (l Limits) resources() *cgroups.Resources {
	r := &cgroups.Resources{Devices: l.deviceRules()}
	if len(l.CPUs) > 0 {
		r.CpusetCpus = formatCPUs(l.CPUs)
	}
	weight := l.CPUWeight
	if weight <= 0 {
		weight = len(l.CPUs)
	}
	if weight > 0 {
		r.CpuShares = min(uint64(weight)*sharesPerCPU, maxShares)
		r.CpuWeight = min(uint64(weight)*weightPerCPU, maxWeight)
	}
	if l.MemoryBytes > 0 {
		r.Memory = int64(min(l.MemoryBytes, math.MaxInt64))
		// v1 refuses a limit below what is in use; v2 would kill.
		r.MemoryCheckBeforeUpdate = true
		if swapIsAccounted() {
			// Equal values mean: no swap beside the memory.
			r.MemorySwap = r.Memory
		}
	}
	if l.Pids > 0 {
		r.PidsLimit = &l.Pids
	}
	return r
}

// deviceRules is an allow-list: the library denies what no rule allows.
func (l Limits) deviceRules() []*devices.Rule {
	if !l.DenyOtherDevices {
		return []*devices.Rule{{
			Type: devices.WildcardDevice, Major: Any, Minor: Any, Permissions: "rwm", Allow: true,
		}}
	}
	rules := make([]*devices.Rule, 0, len(l.Devices))
	for _, d := range l.Devices {
		rules = append(rules, &devices.Rule{
			Type: devices.Type(d.Type), Major: d.Major, Minor: d.Minor,
			// Union puts the letters into the one order that the library accepts.
			Permissions: devices.Permissions(d.Access).Union(""),
			Allow:       true,
		})
	}
	return rules
}

// formatCPUs writes ids as the kernel's cpuset list: "0-3,8".
func formatCPUs(ids []int) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var parts []string
	for start := 0; start < len(ids); {
		end := start
		for end+1 < len(ids) && ids[end+1] == ids[end]+1 {
			end++
		}
		part := strconv.Itoa(ids[start])
		if end > start {
			part += "-" + strconv.Itoa(ids[end])
		}
		parts = append(parts, part)
		start = end + 1
	}
	return strings.Join(parts, ",")
}

// swapIsAccounted says whether a limit on memory and swap together can be set.
// Kernels without swap accounting have no such file on v1; on v2 the library
// leaves a missing one out.
func swapIsAccounted() bool {
	if cgroups.IsCgroup2UnifiedMode() {
		return true
	}
	mount, err := cgroups.FindCgroupMountpoint("", "memory")
	if err != nil {
		return false
	}
	_, err = os.Lstat(mount + "/memory.memsw.limit_in_bytes")
	return err == nil
}
