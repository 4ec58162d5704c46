package noded

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestDriverForImages: a job with an image gets the driver of its GPUs, also when it is
// only asked whether it could resume here; one without an image sees the node's own.
func TestDriverForImages(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: a CDI specification is root's")
	}
	dir := t.TempDir()
	tool := filepath.Join(dir, "nvidia-smi")
	spec := `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": [{"hostPath": "` + tool + `", "containerPath": "/usr/bin/nvidia-smi"}]},
		"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]}`
	for path, text := range map[string]string{tool: "#!/bin/sh\n", filepath.Join(dir, "nvidia.json"): spec} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{
		config: Config{Name: "n1", CPUs: 8, Roots: RootsConfig{SpecDirs: []string{dir}}},
		source: drivenGPUs{Source: gpu.FromConfiguration(nil), version: "580.65.06", devices: []gpu.Device{{ID: "GPU-a", Model: "h100", File: gpu.File{Path: "/dev/nvidia0"}}}},
	}
	for image, want := range map[string]int{"": 0, "oci:/srv/image@sha256:0": 1} {
		order := startOrder(7, 1)
		order.Spec.Image = image
		allocationOf(order).CpuIds, allocationOf(order).Devices = nil, []*pb.AllocatedDevice{{DeviceId: "GPU-a"}}
		r, err := m.resources(order)
		if err != nil || len(r.driver.Files) != want {
			t.Errorf("image %q: %+v, %v", image, r.driver, err)
		}
		asked := 0
		_, err = m.fits(t.Context(), &checkpoint.Manifest{}, &pb.AskRestore{Start: order, DeviceModels: []string{"h100"}}, func(_ context.Context, r resources, _ *pb.StartAlloc, _ *checkpoint.Manifest) (bundle.Misfit, error) {
			asked = len(r.driver.Files)
			return bundle.Misfit{}, nil
		})
		if err != nil || asked != want {
			t.Errorf("asked about image %q: %d files, %v", image, asked, err)
		}
	}
}
