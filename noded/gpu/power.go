package gpu

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// PowerBounds says and sets what GPUs draw at most, where a driver can.
type PowerBounds interface {
	// PowerBound is what a GPU draws at most, and the least that it takes as a bound.
	// It fails with ErrNoPowerBound where the GPU takes none.
	PowerBound(id string) (now, least Milliwatts, err error)
	// SetPowerBound changes that, for all who use the GPU, until the next SetPowerBound or
	// until the driver is loaded again.
	SetPowerBound(id string, bound Milliwatts) error
}

// Milliwatts is a power as the driver counts it.
type Milliwatts uint32

// ErrNoPowerBound is returned when a GPU takes no bound on its power.
var ErrNoPowerBound = errors.New("the GPU takes no bound on its power")

// PowerBound asks the driver.
func (n *NVML) PowerBound(id string) (now, least Milliwatts, err error) {
	handle, ret := n.library.DeviceGetHandleByUUID(id)
	if ret != nvml.SUCCESS {
		return 0, 0, fmt.Errorf("find GPU %s: %v", id, ret)
	}
	limit, ret := handle.GetPowerManagementLimit()
	if ret == nvml.SUCCESS {
		var lowest uint32
		if lowest, _, ret = handle.GetPowerManagementLimitConstraints(); ret == nvml.SUCCESS {
			return Milliwatts(limit), Milliwatts(lowest), nil
		}
	}
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return 0, 0, fmt.Errorf("GPU %s: %w", id, ErrNoPowerBound)
	}
	return 0, 0, fmt.Errorf("ask what GPU %s draws at most: %v", id, ret)
}

// SetPowerBound tells the driver.
func (n *NVML) SetPowerBound(id string, bound Milliwatts) error {
	handle, ret := n.library.DeviceGetHandleByUUID(id)
	if ret != nvml.SUCCESS {
		return fmt.Errorf("find GPU %s: %v", id, ret)
	}
	if ret := handle.SetPowerManagementLimit(uint32(bound)); ret != nvml.SUCCESS {
		return fmt.Errorf("bound what GPU %s draws to %d mW: %v", id, bound, ret)
	}
	return nil
}

var _ PowerBounds = (*NVML)(nil)
