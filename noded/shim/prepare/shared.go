package prepare

import (
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// shared is what the steps of the job share: what it has on each of its nodes, by the
// names that its processes know.
func (j *Job) shared() grant.Job {
	const mib = 1 << 20
	s := j.Order.Spec
	job := grant.Job{Nodes: make([]grant.Node, len(j.Order.Allocation))}
	if s.GetTasks() > 0 {
		job.Tasks = int(s.GetTasks())
	}
	laidOut := uint32(0)
	for i, a := range j.Order.Allocation {
		name := a.Node
		if i < len(j.Order.KnownAs) {
			name = j.Order.KnownAs[i]
		}
		job.Nodes[i] = grant.Node{Name: name, CPUs: len(a.CpuIds), GPUs: len(a.Devices), MemoryMiB: a.MemoryBytes / mib, Tasks: int(max(a.Tasks, 1))}
		laidOut += max(a.Tasks, 1)
	}
	if s.GetTasks() == 0 && s.GetTasksPerNode() > 0 {
		job.Tasks = int(min(laidOut, spec.MaxHostListNames))
	}
	return job
}
