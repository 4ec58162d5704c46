package state

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// addPlacement reads what a submission says of where it lands.
func addPlacement(job *pb.JobSpec, a arguments) {
	job.MaxNodes = a.number("max-nodes")
	job.CpusPerGpu, job.MemoryPerGpuBytes, job.TasksPerGpu = a.number("cpus-per-gpu"), a.size("mem-per-gpu"), a.number("tasks-per-gpu")
	job.MemoryPerCpuBytes = a.size("mem-per-cpu")
	job.Switches, job.SwitchesWaitS = a.number("switches"), a.number("switches-wait")
	job.ExclusiveUser, job.AllMemory, job.Contiguous = a.is("exclusive-user"), a.is("all-memory"), a.is("contiguous")
	job.SpreadJob, job.UseMinNodes = a.is("spread"), a.is("use-min-nodes")
	for name, scope := range map[string]pb.GpuScope{"gpus-in-all": pb.GpuScope_GPU_SCOPE_JOB, "gpus-per-task": pb.GpuScope_GPU_SCOPE_TASK} {
		if count := a.number(name); count > 0 {
			job.Gpus = append(job.Gpus, &pb.GpuRequest{Scope: scope, Count: count, Model: a.values["model"]})
		}
	}
}
