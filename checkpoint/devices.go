package checkpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Device is a device file of a container, as its processes see it. A job has the
// devices with which it was started first for as long as it lives: they belong to
// its images, whatever files and numbers the devices of its nodes have.
type Device struct {
	Path string `json:"path"` // inside
	// Companion: it is not the job's own, but programs need it beside the job's
	// devices, such as /dev/nvidiactl. A machine has one of each name.
	Companion bool `json:"companion,omitempty"`
}

// ReplaceDevices answers, for each device of an image, the index of the container's
// device that takes its place, or why some have none. A companion takes the
// place of the one of its name. A device takes the place of the one at its own
// path, because a driver may know it by that; the others follow in order.
func ReplaceDevices(was, have []Device) (places []int, found []Misfit) {
	places = make([]int, len(was))
	free := make([]int, 0, len(have)) // they take nobody's place yet
	for i := range have {
		if !slices.Contains(was, have[i]) && !have[i].Companion {
			free = append(free, i)
		}
	}
	wanted, had := count(was), count(have)
	if wanted != had {
		found = append(found, Misfit{Property: "GPU", Want: strconv.Itoa(wanted), Have: "the job would have " + strconv.Itoa(had), Remedy: "give it as many"})
	}
	for i, device := range was {
		places[i] = slices.Index(have, device)
		switch {
		case places[i] >= 0:
		case device.Companion:
			found = append(found, Misfit{Property: "device " + device.Path, Want: "it", Remedy: "have the driver make it (nvidia-modprobe -u -c 0), or choose a node that has it"})
		case len(free) > 0:
			places[i], free = free[0], free[1:]
		}
	}
	return places, found
}

// count answers how many devices are no companions.
func count(devices []Device) (n int) {
	for _, d := range devices {
		if !d.Companion {
			n++
		}
	}
	return n
}

// checkDevices refuses devices that no container can have.
func (m *Manifest) checkDevices() error {
	for i, d := range m.Devices {
		switch {
		case !isPath(d.Path) || !strings.HasPrefix(d.Path, "/dev/"):
			return fmt.Errorf("%w: %q is no path of a device", ErrManifest, d.Path)
		case slices.ContainsFunc(m.Devices[:i], func(other Device) bool { return other.Path == d.Path }):
			return fmt.Errorf("%w: it has two devices at %s", ErrManifest, d.Path)
		case !slices.Contains(m.Mounts, d.Path):
			return fmt.Errorf("%w: nothing was mounted at its device %s", ErrManifest, d.Path)
		}
	}
	return nil
}
