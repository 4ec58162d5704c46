package checkpoint

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// ThisMachine answers what images made here need, and what those restored
// here find. The caller adds the GPUs, because it knows which a container has.
func ThisMachine(_ context.Context, engine *Engine) (Machine, error) {
	m := Machine{Arch: runtime.GOARCH, CRIU: engine.Version, Cgroup: "v1"}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("ask for the kernel's release: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	if cgroups.IsCgroup2UnifiedMode() {
		m.Cgroup = "v2"
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("read what the processor can do: %w", err)
	}
	m.Processor = processorOf(string(text))
	return m, nil
}

// hiddenFlags tell what the kernel does with the processor, or what only the
// kernel can use. Programs cannot depend on them.
var hiddenFlags = map[string]bool{
	"pti": true, "ibrs": true, "ibpb": true, "stibp": true, "ssbd": true, "ibrs_enhanced": true, "retpoline": true,
	"tpr_shadow": true, "flexpriority": true, "ept": true, "vpid": true, "ept_ad": true, "vnmi": true, "vmx": true, "svm": true,
	"smep": true, "smap": true, "user_shstk": true, "ibpb_exit_to_user": true, "md_clear": true, "flush_l1d": true,
	"arat": true, "pln": true, "pts": true, "hwp": true, "dtherm": true, "ida": true, "epb": true, "cat_l3": true, "cdp_l3": true,
	"cqm": true, "cqm_llc": true, "cqm_occup_llc": true, "cqm_mbm_total": true, "cqm_mbm_local": true, "mba": true, "rdt_a": true,
	"constant_tsc": true, "nonstop_tsc": true, "tsc_known_freq": true, "tsc_reliable": true, "rep_good": true, "nopl": true,
	"cpuid": true, "aperfmperf": true, "arch_perfmon": true, "pebs": true, "bts": true, "xtopology": true, "tsc_adjust": true,
	"tsc_deadline_timer": true, "hypervisor": true, "invpcid_single": true, "cpuid_fault": true, "arch_capabilities": true,
	"intel_ppin": true, "dtes64": true, "ds_cpl": true, "monitor": true, "tm2": true, "xtpr": true, "pdcm": true, "dca": true, "est": true,
	"x2apic": true, "pcid": true, "invpcid": true, "acpi": true, "dts": true, "ss": true, "ht": true, "tm": true, "pbe": true, "sdbg": true,
}

// processorOf answers vendor and features, in their order: "GenuineIntel: avx
// avx2 …".
func processorOf(cpuinfo string) string {
	var vendor string
	var flags []string
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "vendor_id", "CPU implementer":
			vendor = strings.TrimSpace(value)
		case "flags", "Features":
			flags = strings.Fields(value)
		}
		if strings.TrimSpace(line) == "" && flags != nil {
			break // one processor is like the other
		}
	}
	flags = slices.DeleteFunc(flags, func(flag string) bool { return hiddenFlags[flag] })
	slices.Sort(flags)
	return vendor + ": " + strings.Join(slices.Compact(flags), " ")
}

// lackingFeatures answers the features of want that have does not have, or
// that the processors are of different vendors.
func lackingFeatures(want, have string) []string {
	wantVendor, wantFlags, _ := strings.Cut(want, ":")
	haveVendor, haveFlags, _ := strings.Cut(have, ":")
	if wantVendor != haveVendor {
		return []string{"vendor " + wantVendor}
	}
	there := strings.Fields(haveFlags)
	return slices.DeleteFunc(strings.Fields(wantFlags), func(flag string) bool { return slices.Contains(there, flag) })
}
