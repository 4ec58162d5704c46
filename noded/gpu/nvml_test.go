package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// quiet gives the mock's devices the answers of a healthy GPU to the calls
// that it does not mock by itself.
func quiet(s *server.Server) *server.Server {
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	for i := range s.Devices {
		d := s.Devices[i].(*server.Device)
		d.Config.Name = strings.TrimPrefix(d.Config.Name, "Mock ")
		d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_DISABLED, nvml.ERROR_NOT_SUPPORTED
		}
		d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			return nvml.P2P_STATUS_NOT_SUPPORTED, nvml.SUCCESS
		}
	}
	return s
}

// openMock opens a source over the mock, with device files of its own.
func openMock(t *testing.T, s *server.Server) *NVML {
	t.Helper()
	directory := t.TempDir()
	for i := range s.Devices {
		makeNode(t, filepath.Join(directory, fmt.Sprintf("nvidia%d", i)), 195, uint32(i))
	}
	n, err := openNVML(s, directory)
	if err != nil {
		t.Fatal(err)
	}
	n.watchEvents()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func devicesOf(t *testing.T, n *NVML) []Device {
	t.Helper()
	devices, err := n.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

func TestNVMLInventory(t *testing.T) {
	for model, machine := range map[string]*server.Server{
		"a100": dgxa100.New(), "h100": dgxh100.New(), "h200": dgxh200.New(), "b200": dgxb200.New(),
	} {
		t.Run(model, func(t *testing.T) {
			n := openMock(t, quiet(machine))
			devices := devicesOf(t, n)
			if len(devices) != 8 {
				t.Fatalf("%d devices, want 8", len(devices))
			}
			for i, d := range devices {
				file := File{Major: 195, Minor: int64(i)}
				file.Path = fmt.Sprintf("%s/nvidia%d", n.directory, i)
				file.ContainerPath = file.Path
				if d.Index != i || d.Model != model || d.Health != OK || d.HealthDetail != "" ||
					!strings.HasPrefix(d.ID, "GPU-") || d.MemoryBytes < 40e9 || d.File != file {
					t.Errorf("device %d is %+v", i, d)
				}
			}
		})
	}
}

func TestNVMLAffinityAndLinks(t *testing.T) {
	s := quiet(dgxa100.New())
	first, second := s.Devices[0].(*server.Device), s.Devices[1].(*server.Device)
	first.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return []uint{1 << 1, 1 << 3}, nvml.SUCCESS }
	linked := func(peer *server.Device) func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return func(other nvml.Device, index nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			if other == nvml.Device(peer) && index == nvml.P2P_CAPS_INDEX_NVLINK {
				return nvml.P2P_STATUS_OK, nvml.SUCCESS
			}
			return nvml.P2P_STATUS_OK, nvml.ERROR_NOT_SUPPORTED
		}
	}
	first.GetP2PStatusFunc, second.GetP2PStatusFunc = linked(second), linked(first)
	devices := devicesOf(t, openMock(t, s))
	// On a machine of one or two CPUs, two CPUs are all there are.
	if got := fmt.Sprint(devices[0].CPUAffinity); got != "[1 67]" && got != "[]" {
		t.Errorf("CPU affinity %s", got)
	}
	if got := fmt.Sprint(devices[0].Links, devices[1].Links, devices[2].Links); got !=
		fmt.Sprint([]string{devices[1].ID}, []string{devices[0].ID}, []string{}) {
		t.Errorf("links %s", got)
	}
}

func TestNVMLHealth(t *testing.T) {
	for name, c := range map[string]struct {
		harm   func(d *server.Device)
		health Health
		detail string
	}{
		"row failure": {func(d *server.Device) {
			d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, true, nvml.SUCCESS }
		}, Failed, "could not be remapped"},
		"row pending": {func(d *server.Device) {
			d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, false, nvml.SUCCESS }
		}, Recovering, "nvidia-smi -i 0 -r"},
		"page pending": {func(d *server.Device) {
			d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			}
		}, Recovering, "nvidia-smi -i 0 -r"},
		"mig": {func(d *server.Device) { d.SetMigMode(nvml.DEVICE_MIG_ENABLE) }, Failed, "MIG mode"},
		"lost": {func(d *server.Device) {
			d.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
		}, Failed, "does not answer"},
		"half dead": {func(d *server.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
		}, Failed, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := quiet(dgxa100.New())
			n := openMock(t, s)
			healthy := devicesOf(t, n)[0]
			c.harm(s.Devices[0].(*server.Device))
			devices := devicesOf(t, n)
			d := devices[0]
			if d.Health != c.health || !strings.Contains(d.HealthDetail, c.detail) {
				t.Errorf("health %v, %q; want %v, %q", d.Health, d.HealthDetail, c.health, c.detail)
			}
			if d.ID != healthy.ID || d.MemoryBytes != healthy.MemoryBytes || d.File != healthy.File {
				t.Errorf("the failed device is %+v, was %+v", d, healthy)
			}
			for _, other := range devices[1:] {
				if other.Health != OK {
					t.Errorf("device %d is %v: %s", other.Index, other.Health, other.HealthDetail)
				}
			}
		})
	}
}

func TestNVMLLosesDevice(t *testing.T) {
	s := quiet(dgxa100.New())
	n := openMock(t, s)
	last := devicesOf(t, n)[7]
	s.Devices = s.Devices[:7]
	devices := devicesOf(t, n)
	if len(devices) != 8 || devices[7].ID != last.ID || devices[7].Health != Failed {
		t.Errorf("%d devices, last %+v", len(devices), devices[len(devices)-1])
	}
}

func TestNVMLMissingDeviceFile(t *testing.T) {
	s := quiet(dgxa100.New())
	n := openMock(t, s)
	if err := os.Remove(filepath.Join(n.directory, "nvidia3")); err != nil {
		t.Fatal(err)
	}
	d := devicesOf(t, n)[3]
	if d.Health != Failed || !strings.Contains(d.HealthDetail, "nvidia-modprobe -c 3") {
		t.Errorf("device is %+v", d)
	}
}

func TestNVMLEvents(t *testing.T) {
	s := quiet(dgxa100.New())
	var freed atomic.Bool
	events := make(chan nvml.EventData, 8)
	set := &mock.EventSet{
		WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
			select {
			case e := <-events:
				return e, nvml.SUCCESS
			case <-time.After(5 * time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		},
		FreeFunc: func() nvml.Return { freed.Store(true); return nvml.SUCCESS },
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }
	for _, device := range s.Devices {
		d := device.(*server.Device)
		d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
			return nvml.EventTypeXidCriticalError, nvml.SUCCESS
		}
		d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	// Runs after the source was closed.
	t.Cleanup(func() {
		if !freed.Load() {
			t.Error("the event set was not freed")
		}
	})
	n := openMock(t, s)
	xid := func(device int, number uint64) nvml.EventData {
		return nvml.EventData{Device: s.Devices[device], EventType: nvml.EventTypeXidCriticalError, EventData: number}
	}
	events <- xid(1, 31) // a program's own page fault
	events <- xid(2, 79)
	events <- xid(3, 48)
	events <- xid(3, 79) // the first cause stays
	prototest.Eventually(t, "a device has failed", func() bool { return devicesOf(t, n)[3].Health != OK })
	devices := devicesOf(t, n)
	if devices[1].Health != OK {
		t.Errorf("after a program's fault: %+v", devices[1])
	}
	if devices[2].Health != Failed || !strings.Contains(devices[2].HealthDetail, "fallen off the bus") {
		t.Errorf("after Xid 79: %+v", devices[2])
	}
	if devices[3].Health != Failed || !strings.Contains(devices[3].HealthDetail, "Xid 48") {
		t.Errorf("after Xid 48: %+v", devices[3])
	}
}

func TestNVMLWithoutDriver(t *testing.T) {
	for _, ret := range []nvml.Return{nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED} {
		library := &mock.Interface{InitFunc: func() nvml.Return { return ret }}
		if _, err := openNVML(library, "/dev"); !errors.Is(err, ErrNoDriver) {
			t.Errorf("%v: %v, want ErrNoDriver", ret, err)
		}
	}
	library := &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_UNKNOWN }}
	if _, err := openNVML(library, "/dev"); err == nil || errors.Is(err, ErrNoDriver) {
		t.Errorf("a broken driver: %v", err)
	}
}

// TestRealNVML checks what can be known about any real GPU, and prints the
// rest to be compared with nvidia-smi.
func TestRealNVML(t *testing.T) {
	n, err := OpenNVML()
	if errors.Is(err, ErrNoDriver) {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	devices := devicesOf(t, n)
	if len(devices) == 0 {
		t.Skip("needs an NVIDIA GPU: the driver is there and shows none")
	}
	word := regexp.MustCompile(`^[a-z0-9]+$`)
	seen := map[string]bool{}
	for _, d := range devices {
		t.Logf("%+v", d)
		if seen[d.ID] || !strings.HasPrefix(d.ID, "GPU-") {
			t.Errorf("id %q", d.ID)
		}
		seen[d.ID] = true
		if !word.MatchString(d.Model) || d.Model == "gpu" {
			t.Errorf("model %q of %q", d.Model, d.Product)
		}
		if d.MemoryBytes < 1<<30 {
			t.Errorf("%d bytes of memory", d.MemoryBytes)
		}
		if d.Health == OK {
			if f, err := os.OpenFile(d.File.Path, os.O_RDWR, 0); err != nil {
				t.Errorf("a healthy GPU's file: %v", err)
			} else {
				f.Close()
			}
		}
	}
	files, missing := n.Companions()
	t.Logf("companions %+v, missing %v", files, missing)
	if len(files) == 0 || filepath.Base(files[0].Path) != "nvidiactl" {
		t.Errorf("companions %+v", files)
	}
}
