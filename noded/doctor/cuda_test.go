package doctor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

func TestCUDA(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		change func(*cudaSeen)
		status finding.Status
		words  []string
	}{
		"good":          {func(*cudaSeen) {}, finding.OK, []string{"driver 580.65.06 (CUDA 13.0)", "160"}},
		"newest":        {func(c *cudaSeen) { c.driver.Version = "1010.1" }, finding.OK, nil},
		"old":           {func(c *cudaSeen) { c.driver.Version, c.err = "550.1", fmt.Errorf("x: %w", cuda.ErrTooOld) }, finding.Warning, []string{"550.1", "580 or later", "--checkpoint=app"}},
		"broken":        {func(c *cudaSeen) { c.err = errors.New("cuInit: error (999)") }, finding.Warning, []string{"999", "nvidia-smi"}},
		"same GPU":      {func(c *cudaSeen) { c.driver.Version = "570.86.15" }, finding.Warning, []string{"same GPU"}},
		"forgetful":     {func(c *cudaSeen) { c.driver.Forgetful = []int{0, 1} }, finding.Warning, []string{"GPU 0 1", "nvidia-persistenced"}},
		"little memory": {func(c *cudaSeen) { c.hostBytes = 100 * gib }, finding.Warning, []string{"--mem", "100"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := cudaSeen{driver: gpu.Driver{Version: "580.65.06"}, devices: []gpu.Device{{MemoryBytes: 80 * gib}, {MemoryBytes: 80 * gib}}, hostBytes: 512 * gib, version: 13000}
			c.change(&seen)
			want(t, one(t, seen.judge()), cudaName, c.status, c.words...)
		})
	}
}
