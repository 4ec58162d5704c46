package container

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Device is a device file to show inside.
type Device struct {
	Path          string // on the host
	ContainerPath string
	Type          rune // 'c' or 'b'
	Major, Minor  int64
	Access        string // "rw"
	// Companion: see checkpoint.Device.
	Companion bool
}

// ImageDevices are the devices in the form of an image's.
func ImageDevices(own []Device) []checkpoint.Device {
	var seen []checkpoint.Device
	for _, d := range own {
		seen = append(seen, checkpoint.Device{Path: filepath.Clean(d.ContainerPath), Companion: d.Companion})
	}
	return seen
}

// withDevices describes a container whose processes have seen devices before: it shows
// this node's devices in their places, and nothing that they have not seen. So a job
// that is saved again has the same devices in each of its images.
func (s *Spec) withDevices(before []checkpoint.Device) (*Spec, error) {
	places, found := checkpoint.ReplaceDevices(before, ImageDevices(s.Devices))
	if len(found) > 0 {
		return nil, &MisfitError{found}
	}
	spec := *s
	spec.Devices = make([]Device, len(before))
	for i, seen := range before {
		spec.Devices[i] = s.Devices[places[i]]
		spec.Devices[i].ContainerPath = seen.Path
	}
	return &spec, nil
}

// checkShown makes sure that process 1 finds each of its devices where it should,
// and no other behind its name.
func (c *Container) checkShown(pid int) error {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look at the restored devices: %w", err)
	}
	defer unix.Close(root)
	for i := range c.spec.Devices {
		d := &c.spec.Devices[i]
		shown, err := unix.Openat2(root, d.ContainerPath, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return fmt.Errorf("look at the restored device %s: %w", d.ContainerPath, err)
		}
		var stat unix.Stat_t
		err = unix.Fstat(shown, &stat)
		unix.Close(shown)
		if err == nil {
			err = d.check(&stat)
		}
		if err != nil {
			return fmt.Errorf("look at the restored device %s: %w", d.ContainerPath, err)
		}
	}
	return nil
}

// check refuses a file that is not the right device.
func (d *Device) check(stat *unix.Stat_t) error {
	kind := uint32(unix.S_IFCHR)
	if d.Type == 'b' {
		kind = unix.S_IFBLK
	}
	if major, minor := int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev)); stat.Mode&unix.S_IFMT != kind || major != d.Major || minor != d.Minor {
		return fmt.Errorf("it is not the %c device %d:%d, but mode %#o, %d:%d", d.Type, d.Major, d.Minor, stat.Mode, major, minor)
	}
	return nil
}

// isDevice says whether a path of an image is the path of one of its devices.
func isDevice(m *checkpoint.Manifest, path string) bool {
	return slices.ContainsFunc(m.Devices, func(d checkpoint.Device) bool { return d.Path == path })
}
