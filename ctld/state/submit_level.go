package state

import (
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// level is that of the newest thing it asks for.
func (c SubmitJob) level() Level {
	if c.Spec.Signal != "" || c.Spec.Checkpoint != (Checkpoint{}) {
		return LevelFrozen
	}
	if c.Spec.placedAsOfOld() && c.waitsAsOfOld() && len(c.Spec.Licenses) == 0 {
		return LevelFirst
	}
	return LevelShares
}

// placedAsOfOld says whether all that the request says of nodes, tasks, memory
// and GPUs is understood by programs before LevelShares.
func (s *Spec) placedAsOfOld() bool {
	for _, gpu := range s.GPUs {
		if gpu.Scope == pb.GpuScope_GPU_SCOPE_TASK {
			return false
		}
	}
	return s.CPUsPerGPU == 0 && s.MemoryPerGPU == 0 && s.TasksPerGPU == 0 && s.Switches == 0 && s.SwitchesWaitS == 0 &&
		!s.ExclusiveUser && !s.AllMemory && !s.Contiguous && !s.SpreadJob && !s.UseMinNodes &&
		!strings.ContainsAny(s.Constraint, "|!()[]*")
}
