package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// landing asks for something of where the job lands.
func (w *walker) landing(c *SubmitJob) {
	s := &c.Spec
	s.ExclusiveUser = w.chance(10)
	switch w.Intn(12) {
	case 0:
		s.Constraint = []string{"a|b", "[a*1&b*1]", "x&[a|(b&!c)]", "a*0"}[w.Intn(4)]
	case 1:
		s.GPUs = []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_TASK, Count: 1}}
	case 2:
		s.TasksPerGPU, s.CPUsPerTask, s.CPUsPerGPU = uint32(w.Intn(3)), 0, uint32(w.Intn(2))
	case 3:
		s.AllMemory, s.SpreadJob, s.MaxNodes = true, w.chance(50), s.MinNodes+uint32(w.Intn(3))
	case 4:
		s.Switches, s.SwitchesWaitS, s.Contiguous = 1, uint32(w.Intn(2))*60, w.chance(30)
	}
}

// sharing has partitions that want nodes shared less.
func (w *walker) sharing(site *policy.Policy) {
	for i := range site.Partitions {
		if w.chance(30) {
			site.Partitions[i].Exclusive = []policy.ExclusiveKind{policy.ExclusiveNode, policy.ExclusiveUser}[w.Intn(2)]
		}
	}
	if w.chance(50) {
		site.Switches = []policy.Switch{{Name: "s1", Nodes: "n[1-2]"}, {Name: "s2", Nodes: "n[3-5]"}, {Name: "top", Switches: []string{"s1", "s2"}}}
	}
}
