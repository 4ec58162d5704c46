package noded

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
)

// driverSource is a source of GPUs that knows their driver.
type driverSource interface {
	Driver() (gpu.Driver, error)
}

// gpusFor answers those of this node's GPUs with which a job could go on that
// was saved from others, in their order: the very same where they are here, else
// of the same chip, else whatever there is, so that what differs can be told. It
// also answers why the driver could not bring the job's memory to them. Which
// are free is not looked at.
func (m *machine) gpusFor(wanted []checkpoint.GPU) (here []checkpoint.GPU, found []checkpoint.Misfit, err error) {
	source, ok := m.source.(driverSource)
	if len(wanted) == 0 || !ok {
		return nil, nil, nil
	}
	driver, err := source.Driver()
	if err != nil {
		return nil, nil, err
	}
	devices, err := m.devices()
	if err != nil {
		return nil, nil, err
	}
	devices = slices.Clone(devices)
	devices = slices.DeleteFunc(devices, func(d gpu.Device) bool { return d.Health == gpu.Failed })
	here = make([]checkpoint.GPU, len(wanted))
	for _, like := range []func(checkpoint.GPU, gpu.Device) bool{
		func(w checkpoint.GPU, d gpu.Device) bool { return w.UUID == d.ID },
		func(w checkpoint.GPU, d gpu.Device) bool { return w.Model == d.Product },
		func(checkpoint.GPU, gpu.Device) bool { return true },
	} {
		for i, want := range wanted {
			at := slices.IndexFunc(devices, func(d gpu.Device) bool { return like(want, d) })
			if here[i].UUID != "" || at < 0 {
				continue
			}
			here[i] = checkpoint.GPU{UUID: devices[at].ID, Model: devices[at].Product, Driver: driver.Version}
			devices = slices.Delete(devices, at, at+1)
		}
	}
	here = slices.DeleteFunc(here, func(g checkpoint.GPU) bool { return g.UUID == "" })
	_, obstacles := cuda.Remap(chips(wanted), chips(here), driver.Version)
	for _, o := range obstacles {
		if o.Property == "driver" { // the others are found by who compares
			found = append(found, checkpoint.Misfit{Property: o.Property, Want: "one that can bring memory to other GPUs", Have: fmt.Sprintf("is %s: %s", driver.Version, o.Reason), Remedy: o.Remedy})
		}
	}
	return here, found, nil
}

func chips(gpus []checkpoint.GPU) []cuda.GPU {
	all := make([]cuda.GPU, len(gpus))
	for i, g := range gpus {
		all[i] = cuda.GPU{UUID: g.UUID, Model: g.Model}
	}
	return all
}
