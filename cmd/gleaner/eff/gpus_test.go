package eff

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// gpuRun is one of ten minutes with two GPUs on each of two nodes.
func gpuRun(nodes ...*pb.NodeSteps) *pb.PastRun {
	on := func(node string) *pb.NodeAllocation {
		return &pb.NodeAllocation{Node: node, Devices: []*pb.AllocatedDevice{{Node: node, DeviceId: "a", Model: "h100"}, {Node: node, DeviceId: "b", Model: "h100"}}}
	}
	return &pb.PastRun{RanMs: 600_000, Steps: nodes, Job: &pb.Job{
		Id: &pb.JobId{Job: 5}, State: pb.JobState_JOB_STATE_COMPLETED, StartMs: 1, EndMs: 600_001, Nodes: 2, Cpus: 2, Owner: &pb.Identity{User: "ada"},
		Allocation: []*pb.NodeAllocation{on("n1"), on("n2")},
	}}
}

// measured is a node whose GPUs worked so much, in the mean of ten samples.
func measured(node string, percent uint64) *pb.NodeSteps {
	return &pb.NodeSteps{Node: node, Steps: []*pb.StepPart{
		{Step: 0, Name: "train", Tasks: 1, GpuSamples: 1, SumGpuPercent: 200}, // is in the whole
		{Step: step.BatchStep, GpuSamples: 10, SumGpuPercent: percent * 10, PeakGpuMemoryBytes: percent << 30},
	}}
}

func TestGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		run  *pb.PastRun
		want []string
		not  []string
	}{
		"busy":           {gpuRun(measured("n1", 190), measured("n2", 150)), []string{"GPU time: 00:40:00\n", "GPU Utilized: 3.40 of 4 GPUs\nGPU Efficiency: 85.00%\n", "GPU Memory Utilized: 190.00 GB a node\n"}, []string{"GPUs as were", "idle"}},
		"one worked":     {gpuRun(measured("n1", 90), measured("n2", 0)), []string{"GPU Efficiency: 22.50%\n", "as few GPUs as were busy (1 of 4)"}, []string{"idle"}},
		"idle":           {gpuRun(measured("n1", 3), measured("n2", 1)), []string{"Its GPUs were idle for 99% of the time"}, []string{"GPUs as were"}},
		"half measured":  {gpuRun(measured("n1", 3)), []string{"GPU Utilized: 0.03 of 4 GPUs (measured on 1 of 2 nodes)"}, []string{"idle", "GPUs as were"}},
		"not measured":   {gpuRun(), []string{"GPU Utilized: not measured\n"}, []string{"idle", "GPUs as were", "Efficiency: 0.00%\n"}},
		"only one step ": {gpuRun(&pb.NodeSteps{Node: "n1", Steps: []*pb.StepPart{{Step: 0, Tasks: 1}}}), []string{"GPU Utilized: not measured\n"}, nil},
	} {
		var text strings.Builder
		out := bufio.NewWriter(&text)
		about(out, show.NewView(func(string) string { return "" }, time.Unix(1_900_000_000, 0)), past.Row{Run: c.run})
		_ = out.Flush()
		for _, part := range c.want {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s: %q is not in\n%s", name, part, text.String())
			}
		}
		for _, part := range c.not {
			if strings.Contains(text.String(), part) {
				t.Errorf("%s: %q is in\n%s", name, part, text.String())
			}
		}
	}
}
