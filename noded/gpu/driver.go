package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Driver is what the NVIDIA driver says of itself.
type Driver struct {
	Version string // "570.86.15"
	// Forgetful are the indexes of the GPUs without persistence mode, ascending.
	// The driver puts such a GPU away when nobody uses it.
	Forgetful []int
}

// Driver asks the driver about itself.
func (n *NVML) Driver() (Driver, error) {
	version, ret := n.library.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return Driver{}, fmt.Errorf("ask for the version of the NVIDIA driver: %v: see whether nvidia-smi works", ret)
	}
	d := Driver{Version: version}
	count, ret := n.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return d, fmt.Errorf("count the NVIDIA GPUs: %v: see whether nvidia-smi works", ret)
	}
	for index := range count {
		handle, ret := n.library.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue // Devices tells
		}
		if mode, ret := handle.GetPersistenceMode(); ret == nvml.SUCCESS && mode == nvml.FEATURE_DISABLED {
			d.Forgetful = append(d.Forgetful, index)
		}
	}
	return d, nil
}
