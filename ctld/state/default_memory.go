package state

import "github.com/gleaner-hpc/gleaner/ctld/state/policy"

// fillMemory gives a job that requests no memory the default: by its GPUs if it
// requests any and there is a default for them, else by its CPUs. Without a
// default it gets all memory of its nodes.
func fillMemory(d policy.DefaultMemory, asked *Spec) {
	if asked.MemoryPerNode != 0 || asked.MemoryPerCPU != 0 || asked.MemoryPerGPU != 0 || asked.AllMemory {
		return
	}
	if d.PerGPU != 0 && (len(asked.GPUs) > 0 || asked.TasksPerGPU > 0) {
		asked.MemoryPerGPU = d.PerGPU
		return
	}
	asked.MemoryPerCPU = d.PerCPU
}
