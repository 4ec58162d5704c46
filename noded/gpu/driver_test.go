package gpu

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

func TestDriver(t *testing.T) {
	s := quiet(dgxa100.New())
	s.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "570.86.15", nvml.SUCCESS }
	for i := range s.Devices {
		s.Devices[i].(*server.Device).GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) {
			switch i {
			case 1, 6:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			case 3:
				return nvml.FEATURE_DISABLED, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
	}
	n := openMock(t, s)
	if got, err := n.Driver(); err != nil || got.Version != "570.86.15" || fmt.Sprint(got.Forgetful) != "[1 6]" {
		t.Errorf("%+v, %v", got, err)
	}
	s.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
	if _, err := n.Driver(); err == nil {
		t.Error("a driver without a version is one without an error")
	}
}
