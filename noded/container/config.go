package container

import (
	"fmt"
	"slices"

	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// node is a character device.
type node struct {
	path         string
	major, minor int64
}

// nodes are the devices that every program may use. The host's own files are
// bound: a user namespace cannot make devices.
var nodes = []node{
	{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7},
	{"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
}

// The kernel's numbers of pseudo terminals.
const (
	ptmxMajor, ptmxMinor = 5, 2
	ptsMajor             = 136
)

// AllowedDevices is the whole allow-list of a container with these devices of
// its own. No device may be made, only opened.
func AllowedDevices(own []Device) []cgroup.Device {
	var allowed []cgroup.Device
	for _, n := range nodes {
		allowed = append(allowed, cgroup.Device{Type: 'c', Major: n.major, Minor: n.minor, Access: "rw"})
	}
	allowed = append(allowed,
		cgroup.Device{Type: 'c', Major: ptmxMajor, Minor: ptmxMinor, Access: "rw"},
		cgroup.Device{Type: 'c', Major: ptsMajor, Minor: cgroup.Any, Access: "rw"})
	for _, d := range own {
		allowed = append(allowed, cgroup.Device{Type: d.Type, Major: d.Major, Minor: d.Minor, Access: d.Access})
	}
	return allowed
}

// maskedPaths tell about, or reach, the machine itself.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
	"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts",
	"/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/security",
}

var readOnlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// maxOpenFiles is the soft limit on descriptors: enough for any program, and
// few enough for those that close every possible one.
const maxOpenFiles = 65536

// libraryConfig answers what libcontainer shall make. The system-call filter
// is not in it: process 1 puts that on.
func libraryConfig(spec *Spec, s *stage, root string, mounts []*configs.Mount) (*configs.Config, error) {
	limits, err := limitOpenFiles()
	if err != nil {
		return nil, err
	}
	config := &configs.Config{
		Rootfs:            root,
		RootPropagation:   unix.MS_PRIVATE | unix.MS_REC,
		ParentDeathSignal: int(unix.SIGKILL),
		Mounts:            mounts,
		Hostname:          spec.HostName,
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID},
			{Type: configs.NEWIPC}, {Type: configs.NEWUTS},
		},
		UIDMappings:     s.uids,
		GIDMappings:     s.gids,
		Capabilities:    &configs.Capabilities{},
		NoNewPrivileges: true,
		Cgroups:         spec.Cgroup,
		MaskPaths:       slices.Clone(maskedPaths),
		ReadonlyPaths:   slices.Clone(readOnlyPaths),
		Rlimits:         limits,
	}
	if spec.PrivateNetwork {
		config.Namespaces = append(config.Namespaces, configs.Namespace{Type: configs.NEWNET})
		config.Networks = []*configs.Network{{Type: "loopback"}}
	}
	for _, n := range nodes {
		config.Devices = append(config.Devices, &devices.Device{
			Rule: devices.Rule{Type: devices.CharDevice, Major: n.major, Minor: n.minor, Permissions: "rw", Allow: true},
			Path: n.path, FileMode: 0o666,
		})
	}
	return config, nil
}

// limitOpenFiles lowers the soft limit; the hard limit stays as it is,
// because raising it needs a right that not every root has.
func limitOpenFiles() ([]configs.Rlimit, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	return []configs.Rlimit{{Type: unix.RLIMIT_NOFILE, Soft: min(limit.Max, maxOpenFiles), Hard: limit.Max}}, nil
}
