package past

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// GPUUse is what a step used of GPUs, of all of its nodes together, as far as they measured
// that.
type GPUUse struct {
	Measured bool
	// Percent is 100 for every GPU that worked all the time, in the mean.
	Percent float64
	// Of the node with the most of each, at one time.
	MostPercent uint32
	PercentNode string
	Memory      uint64
	MemoryNode  string
	SumMemory   uint64 // of the nodes' highest
	Nodes       int    // that measured it
	// Only of one that runs: what all of its nodes measured last.
	NowPercent uint32
	NowMemory  uint64
}

func (u *GPUUse) add(node string, part *pb.StepPart) {
	samples := part.GetGpuSamples()
	if samples == 0 {
		return
	}
	u.Measured = true
	u.Nodes++
	u.Percent += float64(part.GetSumGpuPercent()) / float64(samples)
	if u.PercentNode == "" || part.GetMostGpuPercent() > u.MostPercent {
		u.MostPercent, u.PercentNode = part.GetMostGpuPercent(), node
	}
	if u.MemoryNode == "" || part.GetPeakGpuMemoryBytes() > u.Memory {
		u.Memory, u.MemoryNode = part.GetPeakGpuMemoryBytes(), node
	}
	u.SumMemory += part.GetPeakGpuMemoryBytes()
	u.NowPercent += part.GetGpuPercent()
	u.NowMemory += part.GetGpuMemoryBytes()
}

// GPU is what the row's step used of GPUs. The batch script's line has what all of the job
// did, and so has the job's own.
func (r Row) GPU() GPUUse {
	if r.Of != nil {
		return r.Of.GPU
	}
	var use GPUUse
	for _, node := range r.Run.GetSteps() {
		for _, part := range node.GetSteps() {
			if part.GetStep() == step.BatchStep {
				use.add(node.GetNode(), part)
			}
		}
	}
	return use
}
