package gpu

import (
	"errors"
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

func TestMeasure(t *testing.T) {
	s := quiet(dgxa100.New())
	d := s.Devices[0].(*server.Device)
	n := openMock(t, s)
	id := devicesOf(t, n)[0].ID
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 3 << 30}, {Pid: 7, UsedGpuMemory: 1 << 30}, {Pid: 8, UsedGpuMemory: memoryUnknown}}, nvml.SUCCESS
	}
	all := []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: 10, SmUtil: 40}, {Pid: 7, TimeStamp: 20, SmUtil: 60}, {Pid: 9, TimeStamp: 20, SmUtil: 100}, {}}
	answer := nvml.SUCCESS
	d.GetProcessUtilizationFunc = func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		if since >= 20 && answer == nvml.SUCCESS {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return all, answer
	}
	for _, want := range []string{
		"[{7 50 3221225472} {7 0 1073741824} {8 0 0}]", // a context more does not count its work twice
		"[{7 0 3221225472} {7 0 1073741824} {8 0 0}]",  // no new samples: it did nothing
	} {
		if uses, err := n.Measure(id); err != nil || fmt.Sprint(uses) != want {
			t.Errorf("%v (%v), want %s", uses, err, want)
		}
	}
	answer = nvml.ERROR_NOT_SUPPORTED
	if _, err := n.Measure(id); !errors.Is(err, ErrNotMeasured) {
		t.Errorf("got %v", err)
	}
	answer = nvml.ERROR_GPU_IS_LOST
	if _, err := n.Measure(id); err == nil || errors.Is(err, ErrNotMeasured) {
		t.Errorf("got %v", err)
	}
	if _, err := n.Measure("GPU-none"); err == nil {
		t.Error("a GPU that is not there was measured")
	}
}
