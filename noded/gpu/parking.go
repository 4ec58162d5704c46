package gpu

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

// Parking answers what is to be known before the memory of some GPUs is taken
// into host memory: driver, chips, and how much which process has there. ids
// are Device.ID, and the answer has them in that order. Their models are the
// maker's product names: what one has in memory fits into another.
func (n *NVML) Parking(ids []string) (cuda.Facts, error) {
	driver, err := n.Driver()
	if err != nil {
		return cuda.Facts{}, err
	}
	facts := cuda.Facts{Driver: driver.Version, Used: map[int]uint64{}}
	for _, id := range ids {
		handle, ret := n.library.DeviceGetHandleByUUID(id)
		if ret != nvml.SUCCESS {
			return cuda.Facts{}, fmt.Errorf("GPU %s: %v: see whether nvidia-smi works", id, ret)
		}
		product, ret := handle.GetName()
		if ret != nvml.SUCCESS {
			return cuda.Facts{}, fmt.Errorf("GPU %s does not tell its name: %v", id, ret)
		}
		mode, _, ret := handle.GetMigMode()
		facts.GPUs = append(facts.GPUs, cuda.GPU{UUID: id, Model: product, MIG: ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE})
		addUsed(&facts, handle)
	}
	return facts, nil
}

// notAvailable is what NVML says for an amount that it does not know.
const notAvailable = ^uint64(0)

// addUsed adds what processes have on one GPU. What is not known of one makes
// all of it unknown: a sum without it would be too little.
func addUsed(facts *cuda.Facts, handle nvml.Device) {
	processes, ret := handle.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS || slices.ContainsFunc(processes, func(p nvml.ProcessInfo) bool { return p.UsedGpuMemory == notAvailable }) {
		facts.Used = nil
		return
	}
	if facts.Used == nil {
		return
	}
	for _, p := range processes {
		facts.Used[int(p.Pid)] += p.UsedGpuMemory
	}
}
