package gpu

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// TestNVMLPowerBound: the bound of the named GPU is asked and set, and no other's; and a
// driver that cannot, or says no, is heard.
func TestNVMLPowerBound(t *testing.T) {
	s := quiet(dgxh100.New())
	limits := map[string]uint32{}
	for i := range s.Devices {
		d := s.Devices[i].(*server.Device)
		limits[d.UUID] = 700_000
		d.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return limits[d.UUID], nvml.SUCCESS }
		d.GetPowerManagementLimitConstraintsFunc = func() (uint32, uint32, nvml.Return) { return 200_000, 700_000, nvml.SUCCESS }
		d.SetPowerManagementLimitFunc = func(bound uint32) nvml.Return {
			if bound < 200_000 {
				return nvml.ERROR_INVALID_ARGUMENT
			}
			limits[d.UUID] = bound
			return nvml.SUCCESS
		}
	}
	n := openMock(t, s)
	first, second := s.Devices[0].(*server.Device), s.Devices[1].(*server.Device)
	if err := n.SetPowerBound(first.UUID, 300_000); err != nil {
		t.Fatal(err)
	}
	if now, least, err := n.PowerBound(first.UUID); now != 300_000 || least != 200_000 || err != nil {
		t.Errorf("after it was set: %d, %d, %v", now, least, err)
	}
	if now, _, err := n.PowerBound(second.UUID); now != 700_000 || err != nil {
		t.Errorf("of another GPU: %d, %v", now, err)
	}
	if err := n.SetPowerBound(first.UUID, 100_000); err == nil {
		t.Error("a bound is set that the driver refuses")
	}
	if _, _, err := n.PowerBound("GPU-none"); err == nil {
		t.Error("a GPU has a bound that is not there")
	}
	second.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	if _, _, err := n.PowerBound(second.UUID); !errors.Is(err, ErrNoPowerBound) {
		t.Errorf("of a GPU that takes none: %v", err)
	}
}
