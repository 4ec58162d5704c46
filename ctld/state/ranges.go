package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func arraySpec(r *Spec) *pb.ArraySpec {
	return &pb.ArraySpec{Ranges: ranges.Messages(r.ArrayTasks), MaxRunning: r.MaxRunning}
}

// TaskCount is the number of tasks in a record: 1 for a plain job and for a
// single task.
func (j *Job) TaskCount() uint32 {
	if j.Array == 0 || j.HasTask {
		return 1
	}
	return ranges.Count(j.Tasks)
}

func (j *Job) containsTask(task uint32) bool {
	if j.Array == 0 {
		return false
	}
	if j.HasTask {
		return j.Task == task
	}
	return ranges.Contains(j.Tasks, task)
}
