package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const (
	cudaName  = "CUDA checkpoints"
	meansCUDA = "jobs that use GPUs run, but cannot be saved and moved: who is reclaimed has to start again, or to save itself (--checkpoint=app)"
)

// checkCUDA asks the driver whether GPU memory can be taken into host memory.
func (d *doctor) checkCUDA(ctx context.Context) []finding.Finding {
	if !d.config.DetectGPUs {
		return []finding.Finding{finding.Good(cudaName, "gnoded.toml names the GPUs, so NVIDIA's driver is not asked")}
	}
	source, err := gpu.AskNVML()
	if errors.Is(err, gpu.ErrNoDriver) {
		return []finding.Finding{finding.Good(cudaName, "no NVIDIA driver, so no GPU memory to save")}
	}
	if err != nil {
		return []finding.Finding{finding.Bad(cudaName, err.Error(), meansCUDA, "nvidia-smi says more")}
	}
	defer source.Close()
	var seen cudaSeen
	if seen.driver, err = source.Driver(); err == nil {
		seen.devices, err = source.Devices()
	}
	if err == nil {
		seen.hostBytes, err = memory.Total()
	}
	if err != nil {
		return []finding.Finding{finding.Bad(cudaName, err.Error(), meansCUDA, "nvidia-smi says more")}
	}
	helper := cuda.NewHelper(cuda.Options{Command: []string{d.options.Executable, cuda.Word}})
	defer helper.Close()
	seen.version, seen.err = helper.Start(ctx)
	return []finding.Finding{seen.judge()}
}

// cudaSeen is what was found out.
type cudaSeen struct {
	driver    gpu.Driver
	devices   []gpu.Device
	hostBytes uint64
	version   int   // of CUDA, as the driver says it: 12080 is 12.8
	err       error // of loading its library
}

// leastRemapDriver is the first that gives memory back to other GPUs.
const leastRemapDriver = "580"

func (c *cudaSeen) judge() finding.Finding {
	seen := "driver " + c.driver.Version
	if c.err != nil {
		fix := "nvidia-smi says more; dmesg | grep -i -e nvrm -e xid"
		if errors.Is(c.err, cuda.ErrTooOld) {
			fix = "install NVIDIA driver 580 or later (570 can, but only back to the same GPU)"
		}
		return finding.Doubtful(cudaName, seen+": "+c.err.Error(), meansCUDA, fix)
	}
	seen += fmt.Sprintf(" (CUDA %d.%d) can take GPU memory away", c.version/1000, c.version%1000/10)
	gpuBytes := uint64(0)
	for _, device := range c.devices {
		gpuBytes += device.MemoryBytes
	}
	major, _, _ := strings.Cut(c.driver.Version, ".")
	switch {
	case gpuBytes > c.hostBytes:
		return finding.Doubtful(cudaName, fmt.Sprintf("%s, but the GPUs have %s and the host %s", seen, finding.Bytes(gpuBytes), finding.Bytes(c.hostBytes)),
			"what jobs have on all GPUs does not fit into the host at once: some cannot be saved while others are", "add memory; a job needs as much with --mem as it has on GPUs, beside what it has in the host")
	case len(major) < len(leastRemapDriver) || len(major) == len(leastRemapDriver) && major < leastRemapDriver:
		return finding.Doubtful(cudaName, seen+", but only back to the same GPU", "a job that was saved here resumes only on the very same GPUs", "install NVIDIA driver 580 or later")
	case len(c.driver.Forgetful) > 0:
		return finding.Doubtful(cudaName, fmt.Sprintf("%s; persistence mode is off for GPU %s", seen, strings.Trim(fmt.Sprint(c.driver.Forgetful), "[]")),
			"memory can be given back only after the driver was woken, which takes seconds", "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1")
	}
	return finding.Good(cudaName, fmt.Sprintf("%s; the GPUs have %s, the host %s", seen, finding.Bytes(gpuBytes), finding.Bytes(c.hostBytes)))
}
