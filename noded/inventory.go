package noded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/trial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const mebibyte = 1 << 20

// What a node keeps of its memory for the system and the daemons, when the
// configuration does not say: a twentieth, and at least as much as a small
// system needs.
const (
	reserveFraction = 20
	leastReserve    = 512 * mebibyte
)

// machine is what a node knows about itself. It does not change while the
// daemon runs, except for the devices.
type machine struct {
	config   Config
	realCPUs []int // ids of the CPUs this process may use, ascending
	memory   uint64
	cgroups  cgroup.Info
	bootID   string
	source   gpu.Source
	room     *room
	selfTest *selfTest
	tmp      tmpDisk
	engine   *checkpoint.Engine // with which jobs are saved; nil = they are not
	saving   *pb.Saving
	wayOut   bundle.Network
	routes   []string // where they lead, when the daemon began
	parks    *parkTimes
	traffic  *guestTraffic
	io       *guestIO
	power    *guestPower // nil = nothing bounds what GPUs draw
	use      *gpuUse     // nil = nothing measures what jobs use of GPUs

	mu   sync.Mutex
	last []gpu.Device // as last listed
}

// pretending says whether the node offers more CPUs than exist. The jobs of
// such a node are not pinned to CPUs.
func (m *machine) pretending() bool { return m.config.CPUs > len(m.realCPUs) }

func (m *machine) cpus() int {
	if m.config.CPUs > 0 {
		return m.config.CPUs
	}
	return len(m.realCPUs)
}

// lookAround finds out what there is. It fails where a node could not run a
// container.
func lookAround(config Config, source gpu.Source) (*machine, error) {
	m := &machine{config: config, source: source, selfTest: newSelfTest(), room: &room{directory: config.StateDir, minFree: config.MinFreeBytes}}
	var err error
	if m.realCPUs, err = usableCPUs(); err != nil {
		return nil, err
	}
	if m.memory, err = memory.Total(); err != nil {
		return nil, err
	}
	if m.cgroups, err = cgroup.Detect(); err != nil {
		return nil, err
	}
	if m.tmp, err = findTmpDisk(&m.config, m.cpus()); err != nil {
		return nil, err
	}
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the boot id: %w: is /proc mounted?", err)
	}
	m.bootID = strings.TrimSpace(string(bootID))
	return m, nil
}

// neededControllers are those without which no allocation can be limited as it must.
var neededControllers = []string{"devices", "memory", "pids"}

// prepareGroups makes the group below which those of allocations are made, and fails
// where they could not be limited.
func (m *machine) prepareGroups() error {
	var err error
	if m.cgroups, err = cgroup.Prepare(m.config.CgroupParent); err != nil {
		return fmt.Errorf("cgroup_parent: %w", err)
	}
	for _, name := range neededControllers {
		if !slices.Contains(m.cgroups.Controllers, name) {
			return fmt.Errorf("cgroup_parent %s: groups below it have only the controllers %s: enable %s in the kernel (cgroup_enable=%s) and in the groups above",
				m.config.CgroupParent, strings.Join(m.cgroups.Controllers, ", "), name, name)
		}
	}
	m.traffic, m.io = findGuestTraffic(m.config.CgroupParent), findGuestIO(m.config.CgroupParent)
	// What jobs have, and beside it what the node's test of itself needs.
	return cgroup.LimitProcesses(m.config.CgroupParent, bundle.AllProcesses(m.config.MaxTotalProcesses)+trial.MaxProcesses)
}

// openGPUs answers the source that the configuration asks for. A machine
// without a driver has no GPUs.
func openGPUs(config Config, log *slog.Logger) (gpu.Source, error) {
	if !config.DetectGPUs {
		return gpu.FromConfiguration(config.GPUs), nil
	}
	source, err := gpu.OpenNVML()
	if errors.Is(err, gpu.ErrNoDriver) {
		log.Info("this node offers no GPUs", "reason", err)
		return gpu.FromConfiguration(nil), nil
	}
	if err != nil {
		return nil, err
	}
	if _, missing := source.Companions(); len(missing) > 0 {
		log.Warn("device files that CUDA programs need are missing: run nvidia-modprobe -u -c 0", "files", missing)
	}
	return source, nil
}

// inventory says what the node offers, with the health its devices have now.
// With an error the devices are those last seen, all failed.
func (m *machine) inventory() (*pb.Inventory, error) {
	devices, err := m.devices()
	hostName, _ := os.Hostname()
	sockets, cores, threads := m.topology()
	inventory := &pb.Inventory{
		Cpus:            uint32(m.cpus()),
		RealCpus:        uint32(len(m.realCPUs)),
		MemoryBytes:     m.offeredMemory(),
		RealMemoryBytes: m.memory,
		Features:        m.config.Features,
		Version:         Version,
		Os:              kernel(),
		Arch:            architecture(),
		BootId:          m.bootID,
		HostName:        registry.Words(hostName),
		Address:         m.config.Address,
		CgroupVersion:   m.cgroups.Version,
		Sockets:         sockets,
		CoresPerSocket:  cores,
		ThreadsPerCore:  threads,
		Trouble:         m.trouble(),
		Saving:          m.saving,
		TmpBytes:        m.tmp.bytes,
		TmpPerCpuBytes:  m.tmp.perCPU,
		TmpUnbounded:    m.tmp.unbounded,
	}
	inventory.NoWayOut, inventory.Routes = registry.Words(m.wayOut.WhyNot), m.routes
	if m.traffic != nil {
		inventory.BoundsNetwork, inventory.NoNetworkBound = m.traffic.limit != nil, registry.Words(m.traffic.whyNot)
	}
	if m.io != nil {
		inventory.BoundsIo, inventory.NoIoBound = m.io.whyNot == "", registry.Words(m.io.whyNot)
	}
	least, whyNot := m.power.least(devices)
	inventory.BoundsPower, inventory.NoPowerBound, inventory.LeastPowerWatts = whyNot == "", registry.Words(whyNot), least
	for _, d := range devices {
		inventory.Devices = append(inventory.Devices, deviceMessage(d))
	}
	inventory.ParkBounds = m.parks.bounds(inventory.Devices, m.saving.GetCuda())
	return inventory, err
}

// devices lists the devices, or, when that fails, those last seen as failed.
func (m *machine) devices() ([]gpu.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	devices, err := m.source.Devices()
	if err == nil {
		m.last = devices
		return devices, nil
	}
	devices = slices.Clone(m.last)
	for i := range devices {
		devices[i].Health, devices[i].HealthDetail = gpu.Failed, err.Error()
	}
	return devices, err
}

func (m *machine) offeredMemory() uint64 {
	if m.config.MemoryBytes > 0 {
		return m.config.MemoryBytes
	}
	reserve := max(m.memory/reserveFraction, leastReserve)
	if reserve >= m.memory/2 {
		reserve = m.memory / 2
	}
	return m.memory - reserve
}

func deviceMessage(d gpu.Device) *pb.Device {
	message := &pb.Device{
		Id: d.ID, Index: uint32(d.Index), Model: d.Model, MemoryBytes: d.MemoryBytes,
		HealthDetail: registry.Words(d.HealthDetail), Shares: 1, Links: d.Links, Product: registry.Words(d.Product),
	}
	switch d.Health {
	case gpu.OK:
		message.Health = pb.DeviceHealth_DEVICE_HEALTH_OK
	case gpu.Recovering:
		message.Health = pb.DeviceHealth_DEVICE_HEALTH_RECOVERING
	default:
		message.Health = pb.DeviceHealth_DEVICE_HEALTH_FAILED
	}
	for _, cpu := range d.CPUAffinity {
		message.CpuAffinity = append(message.CpuAffinity, uint32(cpu))
	}
	return message
}

// usableCPUs answers the CPUs that this process may run on.
func usableCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("find the CPUs of this machine: %w", err)
	}
	var ids []int
	for id := range len(set) * strconv.IntSize {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// topology answers sockets, cores a socket and threads a core. Where the CPUs
// do not fill a regular shape, or are pretended, each counts as a core.
func (m *machine) topology() (sockets, cores, threads uint32) {
	all := uint32(m.cpus())
	flat := func() (uint32, uint32, uint32) { return 1, all, 1 }
	if m.cpus() != len(m.realCPUs) {
		return flat()
	}
	packages, coreIDs := map[string]bool{}, map[string]bool{}
	for _, id := range m.realCPUs {
		directory := filepath.Join("/sys/devices/system/cpu", "cpu"+strconv.Itoa(id), "topology")
		socket, err := os.ReadFile(filepath.Join(directory, "physical_package_id"))
		if err != nil {
			return flat()
		}
		core, err := os.ReadFile(filepath.Join(directory, "core_id"))
		if err != nil {
			return flat()
		}
		packages[string(socket)] = true
		coreIDs[string(socket)+string(core)] = true
	}
	sockets = uint32(len(packages))
	cores = uint32(len(coreIDs)) / sockets
	if cores == 0 || all%(sockets*cores) != 0 {
		return flat()
	}
	return sockets, cores, all / (sockets * cores)
}

// kernel answers like "Linux 6.18.0".
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// architecture answers the machine's word for it, like "x86_64".
func architecture() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return runtime.GOARCH
	}
	return unix.ByteSliceToString(name.Machine[:])
}
