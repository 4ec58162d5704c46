package show

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has in scontrol's and squeue's words what a job asked for by GPUs,
// by tasks and by switches.

// cpusPerTRES is the CPUs for each GPU: "gres:gpu:2", or "".
func cpusPerTRES(asked *pb.JobSpec) string {
	if asked.GetCpusPerGpu() == 0 {
		return ""
	}
	return "gres:gpu:" + Digits(asked.CpusPerGpu)
}

// memoryPerTRES is the MiB for each GPU: "gres:gpu:4096", or "".
func memoryPerTRES(asked *pb.JobSpec) string {
	if asked.GetMemoryPerGpuBytes() == 0 {
		return ""
	}
	return "gres:gpu:" + Digits(asked.MemoryPerGpuBytes>>20)
}

// switchesText is how many leaf switches a job may be on, and how long it waits
// for that: "1@00:30:00"; "" if it did not ask.
func switchesText(asked *pb.JobSpec) string {
	switch {
	case asked.GetSwitches() == 0:
		return ""
	case asked.SwitchesWaitS == 0:
		return Digits(asked.Switches)
	}
	return fmt.Sprintf("%d@%s", asked.Switches, clockText(asked.SwitchesWaitS))
}

// jobPlacement adds to a job's record what was asked for of all that.
func jobPlacement(r *Record, asked *pb.JobSpec) {
	tasksPerGPU := ""
	if asked.GetTasksPerGpu() > 0 {
		tasksPerGPU = Digits(asked.TasksPerGpu)
	}
	for _, line := range []struct{ key, text string }{
		{"TresPerTask", gresText(asked, pb.GpuScope_GPU_SCOPE_TASK)},
		{"NtasksPerTRES", tasksPerGPU},
		{"CpusPerTres", cpusPerTRES(asked)},
		{"MemPerTres", memoryPerTRES(asked)},
		{"Switches", switchesText(asked)},
	} {
		if line.text != "" {
			r.Line(Item(line.key, line.text))
		}
	}
}

// askedGPUs counts the GPUs that a job asks for, by model: where they are
// counted by tasks, that says it all.
func askedGPUs(job *pb.Job) (total uint32, byModel map[string]uint32) {
	byModel = map[string]uint32{}
	asked := job.GetSpec()
	var counted []*pb.GpuRequest
	for _, request := range asked.GetGpus() {
		if request.Scope == pb.GpuScope_GPU_SCOPE_TASK {
			counted = []*pb.GpuRequest{request}
			break
		}
		counted = append(counted, request)
	}
	if perGPU := asked.GetTasksPerGpu(); perGPU > 0 && len(counted) == 0 {
		counted = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: taskCount(job) / perGPU}}
	}
	for _, request := range counted {
		count := request.Count
		switch request.Scope {
		case pb.GpuScope_GPU_SCOPE_NODE:
			count *= max(job.Nodes, 1)
		case pb.GpuScope_GPU_SCOPE_TASK:
			count *= taskCount(job)
		}
		total += count
		byModel[request.Model] += count
	}
	return total, byModel
}
