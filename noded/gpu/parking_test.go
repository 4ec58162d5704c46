package gpu

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

func TestParking(t *testing.T) {
	s := quiet(dgxh100.New())
	s.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "580.65.06", nvml.SUCCESS }
	var ids []string
	for i := range s.Devices {
		d := s.Devices[i].(*server.Device)
		ids = append(ids, d.UUID)
		d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			switch i {
			case 1, 2:
				return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 1 << 30}, {Pid: uint32(10 + i), UsedGpuMemory: 5}}, nvml.SUCCESS
			case 3:
				return []nvml.ProcessInfo{{Pid: 9, UsedGpuMemory: notAvailable}}, nvml.SUCCESS
			case 4:
				return nil, nvml.ERROR_NO_PERMISSION
			}
			return nil, nvml.SUCCESS
		}
		d.GetMigModeFunc = func() (int, int, nvml.Return) {
			if i == 2 {
				return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS
			}
			return 0, 0, nvml.ERROR_NOT_SUPPORTED
		}
	}
	n := openMock(t, s)
	got, err := n.Parking([]string{ids[2], ids[1]})
	if err != nil {
		t.Fatal(err)
	}
	model := s.Devices[0].(*server.Device).Config.Name
	want := cuda.Facts{Driver: "580.65.06", GPUs: []cuda.GPU{{UUID: ids[2], Model: model, MIG: true}, {UUID: ids[1], Model: model}},
		Used: map[int]uint64{7: 2 << 30, 11: 5, 12: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, i := range []int{3, 4} {
		if got, err := n.Parking([]string{ids[i], ids[1]}); err != nil || got.Used != nil {
			t.Errorf("GPU %d does not tell, and %v are used, %v", i, got.Used, err)
		}
	}
	if _, err := n.Parking([]string{"GPU-nowhere"}); err == nil {
		t.Error("a GPU that is not there")
	}
}
