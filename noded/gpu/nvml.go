package gpu

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NVML is the source of a machine's NVIDIA GPUs.
type NVML struct {
	library   nvml.Interface
	directory string // of the device files: /dev

	mu    sync.Mutex
	known map[string]Device // by id, as each was last seen in working order
	fault map[string]string // by id: the failure event that the driver reported
	// By id: the driver's time of the newest sample of its use that was read.
	sampled map[string]uint64

	stop    chan struct{}
	watcher sync.WaitGroup
}

// OpenNVML opens the driver's library and begins to watch for failures. It
// fails with ErrNoDriver where there is no driver.
func OpenNVML() (*NVML, error) {
	n, err := AskNVML()
	if err == nil {
		n.watchEvents()
	}
	return n, err
}

// AskNVML opens it for some questions, and watches nothing: to end a watch takes as long as
// a wait for an event.
func AskNVML() (*NVML, error) { return openNVML(nvml.New(), "/dev") }

func openNVML(library nvml.Interface, directory string) (*NVML, error) {
	switch ret := library.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: %v", ErrNoDriver, ret)
	default:
		return nil, fmt.Errorf("initialise the NVIDIA management library: %v: see whether nvidia-smi works", ret)
	}
	return &NVML{
		library: library, directory: directory,
		known: map[string]Device{}, fault: map[string]string{}, sampled: map[string]uint64{}, stop: make(chan struct{}),
	}, nil
}

// Close ends the watching and gives the library back.
func (n *NVML) Close() error {
	close(n.stop)
	n.watcher.Wait()
	if ret := n.library.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut down the NVIDIA management library: %v", ret)
	}
	return nil
}

// Companions answers /dev/nvidiactl and the files of unified memory.
func (n *NVML) Companions() (files []File, missing []string) {
	return findCompanions(n.directory)
}

// Devices answers the machine's GPUs.
func (n *NVML) Devices() ([]Device, error) {
	count, ret := n.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count the NVIDIA GPUs: %v: see whether nvidia-smi works", ret)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var devices []Device
	handles := map[string]nvml.Device{}
	for index := range count {
		device, handle := n.device(index)
		if handle != nil {
			handles[device.ID] = handle
		}
		devices = append(devices, device)
	}
	setLinks(devices, handles)
	for i := range devices {
		if devices[i].Health == OK {
			n.known[devices[i].ID] = devices[i]
		}
	}
	return n.withLost(devices), nil
}

// device asks everything about the GPU at index. What the driver cannot tell
// stays empty; what it must be able to tell makes the device a failed one.
func (n *NVML) device(index int) (Device, nvml.Device) {
	handle, ret := n.library.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return n.unreachable(index, ret), nil
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return n.unreachable(index, ret), nil
	}
	d := Device{ID: uuid, Index: index}
	must := func(what string, ret nvml.Return) {
		if ret != nvml.SUCCESS {
			d.fail(Failed, fmt.Sprintf("the driver cannot tell its %s: %v", what, ret))
		}
	}
	d.Product, ret = handle.GetName()
	must("name", ret)
	d.Model = ModelWord(d.Product)
	memory, ret := handle.GetMemoryInfo()
	must("memory", ret)
	d.MemoryBytes = memory.Total
	minor, ret := handle.GetMinorNumber()
	must("minor number", ret)
	if ret == nvml.SUCCESS {
		var err error
		d.File, err = statFile(n.directory + "/nvidia" + strconv.Itoa(minor))
		if err != nil {
			d.fail(Failed, fmt.Sprintf("its device file cannot be used: %v: nvidia-modprobe -c %d makes it", err, minor))
		}
	}
	d.CPUAffinity = cpuAffinity(handle)
	n.judge(&d, handle)
	// A GPU that answers with half of what it was keeps its description.
	if before, ok := n.known[d.ID]; ok && d.Health != OK {
		before.Index, before.Health, before.HealthDetail = d.Index, d.Health, d.HealthDetail
		d = before
	}
	return d, handle
}

// judge sets the health of a GPU that answers.
func (n *NVML) judge(d *Device, handle nvml.Device) {
	if fault, ok := n.fault[d.ID]; ok {
		d.fail(Failed, fault)
	}
	if mode, _, ret := handle.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
		d.fail(Failed, fmt.Sprintf("it is in MIG mode, and slices cannot be given to jobs: nvidia-smi -i %d -mig 0 ends that", d.Index))
	}
	if _, _, pending, failed, ret := handle.GetRemappedRows(); ret == nvml.SUCCESS {
		if failed {
			d.fail(Failed, "a faulty row of its memory could not be remapped: have it replaced")
		}
		if pending {
			d.fail(Recovering, fmt.Sprintf("a row of its memory waits to be remapped: nvidia-smi -i %d -r resets it", d.Index))
		}
	}
	if pending, ret := handle.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS && pending == nvml.FEATURE_ENABLED {
		d.fail(Recovering, fmt.Sprintf("a page of its memory waits to be retired: nvidia-smi -i %d -r resets it", d.Index))
	}
}

// unreachable is a GPU that does not answer: the one known at that index, or
// one without a name.
func (n *NVML) unreachable(index int, ret nvml.Return) Device {
	d := Device{ID: fmt.Sprintf("unreachable-%d", index), Index: index, Model: "gpu"}
	for _, known := range n.known {
		if known.Index == index {
			d = known
		}
	}
	d.Health, d.HealthDetail = OK, ""
	d.fail(Failed, fmt.Sprintf("it does not answer: %v: see the kernel log for Xid messages", ret))
	return d
}

// withLost adds the GPUs that were there before and that the driver no longer
// counts, and puts all in order.
func (n *NVML) withLost(devices []Device) []Device {
	for id, known := range n.known {
		if !slices.ContainsFunc(devices, func(d Device) bool { return d.ID == id }) {
			known.Health, known.HealthDetail = Failed, "the driver no longer shows it: see the kernel log for Xid messages"
			devices = append(devices, known)
		}
	}
	slices.SortFunc(devices, func(a, b Device) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return strings.Compare(a.ID, b.ID)
	})
	return devices
}

// setLinks finds the pairs that reach each other over NVLink, directly or
// through switches.
func setLinks(devices []Device, handles map[string]nvml.Device) {
	for i := range devices {
		d := &devices[i]
		from, ok := handles[d.ID]
		if !ok {
			continue
		}
		d.Links = nil
		for _, other := range devices {
			to, ok := handles[other.ID]
			if !ok || other.ID == d.ID {
				continue
			}
			status, ret := from.GetP2PStatus(to, nvml.P2P_CAPS_INDEX_NVLINK)
			if ret == nvml.SUCCESS && status == nvml.P2P_STATUS_OK {
				d.Links = append(d.Links, other.ID)
			}
		}
	}
}

// maxCPUs is how many CPUs the affinity is asked for: the most that Linux can
// be built for.
const maxCPUs = 8192

// cpuAffinity answers the CPUs near a GPU, or nothing when all are.
func cpuAffinity(handle nvml.Device) []int {
	words, ret := handle.GetCpuAffinity(maxCPUs)
	if ret != nvml.SUCCESS {
		return nil
	}
	var ids []int
	for w, word := range words {
		for bit := range strconv.IntSize {
			if word&(1<<bit) != 0 {
				ids = append(ids, w*strconv.IntSize+bit)
			}
		}
	}
	if len(ids) >= runtime.NumCPU() {
		return nil
	}
	return ids
}

var _ Source = (*NVML)(nil)
