package noded

import (
	"errors"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
)

// drivenGPUs are GPUs with a driver.
type drivenGPUs struct {
	gpu.Source
	version string
	devices []gpu.Device
	err     error
}

func (g drivenGPUs) Driver() (gpu.Driver, error)    { return gpu.Driver{Version: g.version}, g.err }
func (g drivenGPUs) Devices() ([]gpu.Device, error) { return g.devices, nil }
func (g drivenGPUs) image(at ...int) []checkpoint.GPU {
	var gpus []checkpoint.GPU
	for _, i := range at {
		gpus = append(gpus, checkpoint.GPU{UUID: g.devices[i].ID, Model: g.devices[i].Product, Driver: g.version})
	}
	return gpus
}

// TestGPUsMisfit: a node says of other models, drivers and numbers of GPUs that it
// cannot resume an image, and which property that is.
func TestGPUsMisfit(t *testing.T) {
	here := drivenGPUs{version: "580.65.06", devices: []gpu.Device{
		{ID: "GPU-a", Product: "NVIDIA H100"}, {ID: "GPU-b", Product: "NVIDIA H100"}, {ID: "GPU-c", Product: "NVIDIA A100"}, {ID: "GPU-d", Product: "NVIDIA L4", Health: gpu.Failed},
	}}
	elsewhere := func(model string, driver string) checkpoint.GPU {
		return checkpoint.GPU{UUID: "GPU-x", Model: model, Driver: driver}
	}
	for name, row := range map[string]struct {
		source gpu.Source
		wanted []checkpoint.GPU
		want   string // what does not fit; "" = nothing
	}{
		"none":             {here, nil, ""},
		"the same":         {here, here.image(1, 0), ""},
		"the same chip":    {here, []checkpoint.GPU{elsewhere("NVIDIA H100", "580.65.06"), here.image(0)[0]}, ""},
		"another chip":     {here, []checkpoint.GPU{elsewhere("NVIDIA L40S", "580.65.06")}, "GPU model: it was saved from a NVIDIA L40S, and none of that chip is left here"},
		"a broken one":     {here, []checkpoint.GPU{elsewhere("NVIDIA L4", "580.65.06")}, "GPU model: it was saved from a NVIDIA L4, and"},
		"too many":         {here, here.image(0, 1, 2, 3), "GPUs: it was saved from 4 GPUs, and here it has 3"},
		"another driver":   {here, []checkpoint.GPU{elsewhere("NVIDIA A100", "580.95.05")}, "driver: it was saved under NVIDIA driver 580.95.05, and here is 580.65.06"},
		"no remapping":     {drivenGPUs{version: "570.86.15", devices: here.devices}, []checkpoint.GPU{elsewhere("NVIDIA A100", "570.86.15")}, "driver: NVIDIA driver 570.86.15 can give memory back to the same GPU only"},
		"not even needed":  {drivenGPUs{version: "570.86.15", devices: here.devices}, []checkpoint.GPU{{UUID: "GPU-c", Model: "NVIDIA A100", Driver: "570.86.15"}}, ""},
		"named by hand":    {gpu.FromConfiguration([]gpu.Configured{{ID: "gpu0", Path: "/dev/null"}}), here.image(0), "GPU: the image needs 1 whose driver can be asked"},
		"none, and wanted": {gpu.FromConfiguration(nil), here.image(0), "GPU: the image needs 1 whose driver can be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{source: row.source}
			found, err := m.gpusMisfit(row.wanted)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, misfit := range found {
				texts = append(texts, misfit.String())
			}
			if got := strings.Join(texts, "; "); (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("%q", got)
			}
		})
	}
	m := &machine{source: drivenGPUs{err: errors.New("is lost")}}
	if _, err := m.gpusMisfit(here.image(0)); err == nil {
		t.Error("a driver that does not answer")
	}
}
