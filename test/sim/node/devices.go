package node

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Shown is a device as an allocation sees it, and which one is behind its name.
type Shown struct {
	As checkpoint.Device
	ID string // "" = what goes with all GPUs of the machine
}

// ownDevices are an allocation's as its machine would show them, in the order of its
// allocation. No two machines have the same names for their GPUs: what one calls its
// first may be another's second, and on every other one the names descend.
func (s *Shim) ownDevices() (own []Shown) {
	number, names, next := uint32(s.Node.Number), s.Node.GPUs+3, uint32(1)
	if number%2 == 0 {
		next = names - 1
	}
	for _, d := range s.Share().GetDevices() {
		name := (next*d.GetIndex() + number) % names
		own = append(own, Shown{checkpoint.Device{Path: fmt.Sprintf("/dev/gpu%d", name)}, d.GetDeviceId()})
	}
	if len(own) > 0 {
		own = append(own, Shown{As: checkpoint.Device{Path: "/dev/gpuctl", Companion: true}})
	}
	return own
}

// seesFrom sets the devices that an allocation begins with: its machine's, under the names that
// they have there or, when it resumes from an image, under those of the image.
func (s *Shim) seesFrom(i *Image) []checkpoint.Misfit {
	own := s.ownDevices()
	if i == nil {
		s.Sees = own
		return nil
	}
	places, found := checkpoint.ReplaceDevices(i.Devices, DevicesOf(own))
	if len(found) > 0 {
		return found
	}
	s.Sees = make([]Shown, len(places))
	for at, place := range places {
		s.Sees[at] = Shown{i.Devices[at], own[place].ID}
	}
	return nil
}

// imageDevices are what a save writes down.
func (s *Shim) imageDevices() []checkpoint.Device {
	if s.Node.Broken.NamesItsOwn {
		return DevicesOf(s.ownDevices())
	}
	return DevicesOf(s.Sees)
}

// DevicesOf are the devices as an allocation sees them.
func DevicesOf(all []Shown) (devices []checkpoint.Device) {
	for _, d := range all {
		devices = append(devices, d.As)
	}
	return devices
}
