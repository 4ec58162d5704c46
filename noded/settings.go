package noded

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/noded/cdi"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// errOrder is returned for an order that this node cannot carry out as it
// is.
var errOrder = registry.ErrOrder

// resources is what an allocation gets of this node.
type resources struct {
	cpus   []int      // real ids, ascending; empty = not pinned
	files  []gpu.File // of its GPUs, and what goes with them
	others []string   // device files of the node's other GPUs
	driver cdi.Driver // what the root of an image needs of the driver of its GPUs
}

// checkOrder refuses what is not an order for this node.
func (a *agent) checkOrder(order *pb.StartAlloc) error {
	switch {
	case order.GetAlloc().GetJob() == 0 || order.GetAlloc().GetEpoch() == 0:
		return fmt.Errorf("%w: it names no allocation", errOrder)
	case order.Node != a.machine.config.Name:
		return fmt.Errorf("%w: it is for node %q, and this is %q", errOrder, shorten(order.Node), a.machine.config.Name)
	case order.Spec == nil || order.Owner == nil:
		return fmt.Errorf("%w: it has no specification or no owner", errOrder)
	case allocationOf(order) == nil:
		return fmt.Errorf("%w: it allocates nothing on this node", errOrder)
	}
	return nil
}

func allocationOf(order *pb.StartAlloc) *pb.NodeAllocation {
	for _, allocation := range order.Allocation {
		if allocation.Node == order.Node {
			return allocation
		}
	}
	return nil
}

// resources finds the CPUs and the device files of an order's allocation. It
// refuses devices that are unknown or not sound, and CPUs that do not exist.
func (m *machine) resources(order *pb.StartAlloc) (resources, error) {
	allocation := allocationOf(order)
	var r resources
	for _, id := range allocation.CpuIds {
		if int(id) >= m.cpus() {
			return r, fmt.Errorf("%w: CPU %d of %d", errOrder, id, m.cpus())
		}
		if !m.pretending() {
			r.cpus = append(r.cpus, m.realCPUs[id])
		}
	}
	slices.Sort(r.cpus)
	if len(allocation.Devices) == 0 {
		return r, nil
	}
	devices, err := m.devices()
	if err != nil {
		return r, err
	}
	for _, wanted := range allocation.Devices {
		i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.ID == wanted.DeviceId })
		if i < 0 {
			return r, fmt.Errorf("%w: this node has no device %q", errOrder, shorten(wanted.DeviceId))
		}
		if devices[i].Health != gpu.OK {
			return r, fmt.Errorf("GPU %d (%s) is %v: %s", devices[i].Index, devices[i].ID, devices[i].Health, devices[i].HealthDetail)
		}
		r.files = append(r.files, devices[i].File)
	}
	if order.Spec.GetImage() != "" {
		if r.driver, err = m.driverFor(r.files); err != nil {
			return r, err
		}
	}
	r.files = m.withCompanions(r.files)
	for _, d := range devices {
		if !slices.ContainsFunc(allocation.Devices, func(own *pb.AllocatedDevice) bool { return own.DeviceId == d.ID }) {
			r.others = append(r.others, d.File.Path)
		}
	}
	return r, nil
}

// withCompanions adds what goes with GPUs to their files, if there are any.
func (m *machine) withCompanions(files []gpu.File) []gpu.File {
	if len(files) == 0 {
		return nil
	}
	companions, _ := m.source.Companions()
	return append(files, companions...)
}

// toolDirectories are where a driver's tools are that do not lie beside its libraries.
var toolDirectories = []string{"/usr/bin", "/usr/local/bin", "/bin"}

// driverFor answers what the root of an image needs of the driver of these GPUs: what the
// node's CDI specifications say, or else what lies beside the library through which this
// program asks for them. GPUs that another driver has, or none, need nothing.
func (m *machine) driverFor(files []gpu.File) (cdi.Driver, error) {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	driver, err := cdi.FromSpecs(m.config.Roots.SpecDirs, paths)
	if err == nil {
		return *driver, nil
	}
	if !errors.Is(err, cdi.ErrNoSpec) {
		return cdi.Driver{}, err
	}
	if _, asked := m.source.(driverSource); !asked {
		return cdi.Driver{}, nil
	}
	library, err := cdi.LoadedLibrary("/proc/self/maps")
	if err == nil {
		driver, err = cdi.Beside(library, toolDirectories)
	}
	if err != nil {
		return cdi.Driver{}, fmt.Errorf("show an image the NVIDIA driver: %w: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml says where it is", err)
	}
	return *driver, nil
}
