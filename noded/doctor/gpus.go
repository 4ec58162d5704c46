package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const gpusName = "GPUs"

func (d *doctor) checkGPUs(context.Context) []finding.Finding {
	if !d.config.DetectGPUs {
		return []finding.Finding{judgeDevices("gnoded.toml names", gpu.FromConfiguration(d.config.GPUs))}
	}
	source, err := gpu.AskNVML()
	if errors.Is(err, gpu.ErrNoDriver) {
		return []finding.Finding{judgeNoDriver(nvidiaHardware("/sys/bus/pci/devices"))}
	}
	if err != nil {
		return []finding.Finding{finding.Bad(gpusName, err.Error(), "gnoded does not start", "nvidia-smi says more; dmesg | grep -i -e nvrm -e xid")}
	}
	defer source.Close()
	found := []finding.Finding{judgeDevices("the NVIDIA driver shows", source), judgeDriver(source.Driver())}
	if _, missing := source.Companions(); len(missing) > 0 {
		found = append(found, finding.Bad("GPU device files", "missing: "+strings.Join(missing, ", "), "CUDA programs fail",
			"nvidia-modprobe -u -c 0; to have it at each start: systemctl enable nvidia-persistenced"))
	}
	return found
}

func judgeDriver(driver gpu.Driver, err error) finding.Finding {
	const name = "NVIDIA driver"
	if err != nil {
		return finding.Bad(name, err.Error(), "GPUs cannot be used", "nvidia-smi says more; dmesg | grep -i -e nvrm -e xid")
	}
	if len(driver.Forgetful) > 0 {
		return finding.Doubtful(name, fmt.Sprintf("version %s; persistence mode is off for GPU %s", driver.Version, strings.Trim(fmt.Sprint(driver.Forgetful), "[]")),
			"each job waits some seconds for its first use of a GPU, and what is set on the GPU is lost between jobs",
			"systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1")
	}
	return finding.Good(name, "version "+driver.Version+", persistence mode on")
}

// judgeDevices tells the GPUs of a source and how they are.
func judgeDevices(who string, source gpu.Source) finding.Finding {
	devices, err := source.Devices()
	if err != nil {
		return finding.Bad(gpusName, err.Error(), "no GPU is given to jobs", "nvidia-smi says more; dmesg | grep -i -e nvrm -e xid")
	}
	counts, bad := map[string]int{}, []string{}
	var models []string
	for _, device := range devices {
		if counts[device.Model]++; counts[device.Model] == 1 {
			models = append(models, device.Model)
		}
		if device.Health != gpu.OK {
			bad = append(bad, fmt.Sprintf("GPU %d (%s) is %v: %s", device.Index, device.ID, device.Health, device.HealthDetail))
		}
	}
	for i, model := range models {
		models[i] = fmt.Sprintf("%d %s", counts[model], model)
	}
	seen := who + " " + strings.Join(models, ", ")
	if len(devices) == 0 {
		seen = who + " none"
	}
	if len(bad) > 0 {
		return finding.Bad(gpusName, seen+"; "+few(bad), "those are given to no job; the others are", "do what is written there; dmesg | grep -i -e nvrm -e xid says more")
	}
	return finding.Good(gpusName, seen+", all sound")
}

// judgeNoDriver is about a machine without a driver, with hardware.
func judgeNoDriver(hardware []string) finding.Finding {
	if len(hardware) == 0 {
		return finding.Good(gpusName, "no NVIDIA driver and no NVIDIA GPU; GPUs of others can be named by files: [[gpu]] in gnoded.toml")
	}
	return finding.Doubtful(gpusName, "no NVIDIA driver, but NVIDIA hardware at "+few(hardware), "this node offers no GPUs, unless gnoded.toml names their files",
		"with non-free in /etc/apt/sources.list: apt-get install nvidia-driver nvidia-smi && reboot; nvidia-smi must work afterwards")
}

// nvidiaHardware answers the addresses of NVIDIA's display devices.
func nvidiaHardware(directory string) (addresses []string) {
	vendors, _ := filepath.Glob(directory + "/*/vendor")
	for _, path := range vendors {
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "class"))
		vendor, err := os.ReadFile(path)
		// 03: display controllers, of which 0302 are those without a screen.
		if err == nil && strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			addresses = append(addresses, filepath.Base(filepath.Dir(path)))
		}
	}
	return addresses
}
