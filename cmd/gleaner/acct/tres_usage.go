package acct

import (
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// This file writes what a step used as TRES. GPUs are there where a node has measured them,
// by the names that Slurm gives them: gres/gpumem, and gres/gpuutil in percent of one GPU.

func (r *row) unused() bool { return r.Of == nil && r.Job().GetUsage() == nil }

// usedTRES is all of it, in the order of the names.
func (r *row) usedTRES(cpuNS uint64, memory string, gpuMemory uint64, gpuPercent float64) string {
	if r.unused() {
		return ""
	}
	text := "cpu=" + show.Clock(uint32(cpuNS/1e9))
	if r.GPU().Measured {
		text += ",gres/gpumem=" + r.size(gpuMemory, 'M') + ",gres/gpuutil=" + strconv.FormatFloat(gpuPercent, 'f', 0, 64)
	}
	return text + ",mem=" + memory
}

// usedAverage is of one task in the mean.
func (r *row) usedAverage() string {
	use, tasks := r.GPU(), uint64(1)
	if r.Of != nil {
		tasks = uint64(max(r.Of.Tasks, 1))
	}
	return r.usedTRES(r.averageCPU(), r.averageMemory(), use.SumMemory/tasks, use.Percent/float64(tasks))
}

func (r *row) usedMost() string {
	use := r.GPU()
	return r.usedTRES(r.cpuNS(), r.peakMemory(), use.Memory, float64(use.MostPercent))
}

func (r *row) usedMostNode() string {
	if r.unused() {
		return ""
	}
	text := ""
	if use := r.GPU(); use.Measured {
		text = "gres/gpumem=" + use.MemoryNode + ",gres/gpuutil=" + use.PercentNode + ","
	}
	return text + "mem=" + r.peakNode()
}

func (r *row) usedInAll() string {
	use := r.GPU()
	return r.usedTRES(r.cpuNS(), r.peakMemory(), use.SumMemory, use.Percent)
}
