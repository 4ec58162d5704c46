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

// gpusMisfit answers why what a job had in the memory of GPUs cannot come back on this
// node's: on the very same if they are here, otherwise on those of the same chip, otherwise on
// whatever there is, so that what differs can be told. Which are free is not looked at.
func (m *machine) gpusMisfit(wanted []checkpoint.GPU) (found []checkpoint.Misfit, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	source, ok := m.source.(driverSource)
	if !ok {
		return []checkpoint.Misfit{{Property: "GPU", Want: fmt.Sprintf("%d whose driver can be asked", len(wanted)), Remedy: "choose a node with as many"}}, nil
	}
	driver, err := source.Driver()
	if err != nil {
		return nil, err
	}
	devices, err := m.devices()
	if err != nil {
		return nil, err
	}
	devices = slices.Clone(devices)
	devices = slices.DeleteFunc(devices, func(d gpu.Device) bool { return d.Health == gpu.Failed })
	here := make([]cuda.GPU, len(wanted))
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
			here[i] = cuda.GPU{UUID: devices[at].ID, Model: devices[at].Product}
			devices = slices.Delete(devices, at, at+1)
		}
	}
	here = slices.DeleteFunc(here, func(g cuda.GPU) bool { return g.UUID == "" })
	_, obstacles := cuda.Fits(chips(wanted), wanted[0].Driver, cuda.Facts{Driver: driver.Version, GPUs: here})
	for _, o := range obstacles {
		found = append(found, checkpoint.Misfit{Property: o.Property, Reason: o.Reason, Remedy: o.Remedy})
	}
	return found, nil
}

func chips(gpus []checkpoint.GPU) []cuda.GPU {
	all := make([]cuda.GPU, len(gpus))
	for i, g := range gpus {
		all[i] = cuda.GPU{UUID: g.UUID, Model: g.Model}
	}
	return all
}
