package container

import (
	"fmt"
	"os"
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

// AllowedDevices is the whole allow-list of a container with these devices.
// Devices may be opened, not made.
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

// libraryConfig answers the configuration for libcontainer. It has no system-call
// filter: process 1 installs that.
func libraryConfig(spec *Spec, s *stage, root string, mounts []*configs.Mount) (*configs.Config, error) {
	var err error
	if s.own, err = userNamespace(s.uids, s.gids, namespaceOwner(spec.ID), boundsInside(spec.Nests())); err != nil {
		return nil, err
	}
	config := &configs.Config{
		Rootfs:            root,
		RootPropagation:   unix.MS_PRIVATE | unix.MS_REC,
		ParentDeathSignal: int(unix.SIGKILL),
		Mounts:            mounts,
		Hostname:          spec.HostName,
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER, Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.own.Fd())}, {Type: configs.NEWNS}, {Type: configs.NEWPID},
			{Type: configs.NEWIPC}, {Type: configs.NEWUTS},
		},
		UIDMappings:     s.uids,
		GIDMappings:     s.gids,
		Capabilities:    &configs.Capabilities{},
		NoNewPrivileges: true,
		Cgroups:         spec.Cgroup,
		MaskPaths:       slices.Clone(maskedPaths),
		ReadonlyPaths:   slices.Clone(readOnlyPaths),
	}
	if spec.Nests() {
		config.MaskPaths = slices.DeleteFunc(config.MaskPaths, ofProc)
		config.ReadonlyPaths = slices.DeleteFunc(config.ReadonlyPaths, ofProc)
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
