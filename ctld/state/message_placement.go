package state

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// This file converts, both ways, the fields of a request that say where a job
// lands.

func (s *Spec) placementFromMessage(asked *pb.JobSpec) {
	s.CPUsPerGPU, s.MemoryPerGPU, s.TasksPerGPU = asked.GetCpusPerGpu(), asked.GetMemoryPerGpuBytes(), asked.GetTasksPerGpu()
	s.Switches, s.SwitchesWaitS = asked.GetSwitches(), asked.GetSwitchesWaitS()
	s.ExclusiveUser, s.AllMemory, s.Contiguous = asked.GetExclusiveUser(), asked.GetAllMemory(), asked.GetContiguous()
	s.SpreadJob, s.UseMinNodes = asked.GetSpreadJob(), asked.GetUseMinNodes()
}

func (s *Spec) placementMessage(message *pb.JobSpec) {
	message.CpusPerGpu, message.MemoryPerGpuBytes, message.TasksPerGpu = s.CPUsPerGPU, s.MemoryPerGPU, s.TasksPerGPU
	message.Switches, message.SwitchesWaitS = s.Switches, s.SwitchesWaitS
	message.ExclusiveUser, message.AllMemory, message.Contiguous = s.ExclusiveUser, s.AllMemory, s.Contiguous
	message.SpreadJob, message.UseMinNodes = s.SpreadJob, s.UseMinNodes
}
