package gpu

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Meter says what processes use of GPUs, where a driver can.
type Meter interface {
	// Measure is what each process has used of a GPU since the last call for it, and holds
	// of its memory now. It fails with ErrNotMeasured where the GPU does not tell processes
	// apart.
	Measure(id string) ([]ProcessUse, error)
}

// ProcessUse is what a process uses of one GPU.
type ProcessUse struct {
	PID         int    // on this machine
	Percent     uint32 // of the time, in which one of its kernels ran
	MemoryBytes uint64
}

// ErrNotMeasured is returned when a GPU does not say what each process uses.
var ErrNotMeasured = errors.New("the GPU does not tell what each process uses")

// Measure asks the driver, which keeps some seconds of samples. A process that uses nothing
// has none.
func (n *NVML) Measure(id string) ([]ProcessUse, error) {
	handle, ret := n.library.DeviceGetHandleByUUID(id)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("find GPU %s: %v", id, ret)
	}
	holders, ret := handle.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil, notMeasured(id, ret)
	}
	n.mu.Lock()
	since := n.sampled[id]
	n.mu.Unlock()
	samples, ret := handle.GetProcessUtilization(since)
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_FOUND { // not found: nothing worked
		return nil, notMeasured(id, ret)
	}
	percent, newest := meanPercent(samples, since)
	n.mu.Lock()
	n.sampled[id] = newest
	n.mu.Unlock()
	var uses []ProcessUse
	for _, holder := range holders {
		use := ProcessUse{PID: int(holder.Pid), Percent: percent[holder.Pid]}
		if holder.UsedGpuMemory != memoryUnknown {
			use.MemoryBytes = holder.UsedGpuMemory
		}
		uses = append(uses, use)
		delete(percent, holder.Pid) // it may be named for each of its contexts
	}
	return uses, nil
}

// memoryUnknown is what the driver says where it does not know (NVML_VALUE_NOT_AVAILABLE).
const memoryUnknown = ^uint64(0)

// meanPercent is the mean of the samples of each process, and the time of the newest.
func meanPercent(samples []nvml.ProcessUtilizationSample, since uint64) (map[uint32]uint32, uint64) {
	sums, counts := map[uint32]uint64{}, map[uint32]uint64{}
	for _, sample := range samples {
		if sample.Pid == 0 || sample.TimeStamp <= since {
			continue // an unused place of the driver's list, or had before
		}
		sums[sample.Pid] += uint64(min(sample.SmUtil, 100))
		counts[sample.Pid]++
	}
	for _, sample := range samples {
		since = max(since, sample.TimeStamp)
	}
	means := map[uint32]uint32{}
	for pid, sum := range sums {
		means[pid] = uint32(sum / counts[pid])
	}
	return means, since
}

func notMeasured(id string, ret nvml.Return) error {
	if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_FUNCTION_NOT_FOUND {
		return fmt.Errorf("GPU %s: %w", id, ErrNotMeasured)
	}
	return fmt.Errorf("ask what the processes on GPU %s use: %v", id, ret)
}

var _ Meter = (*NVML)(nil)
