package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// JobTargets are the jobs, arrays and tasks that a user named; none means
// all jobs.
type JobTargets []spec.JobTarget

// Ids are what a controller is asked for. One task can be named to it; of
// several, match picks them out of the array.
func (t JobTargets) Ids() []*pb.JobId {
	var ids []*pb.JobId
	for _, target := range t {
		id := &pb.JobId{Job: target.Job}
		if spec.CountTasks(target.Tasks) == 1 {
			first, _ := spec.FirstTask(target.Tasks)
			id.ArrayTask = &first
		}
		ids = append(ids, id)
	}
	return ids
}

// Match reports whether a job is among the targets, and which of its waiting
// tasks if they are to be shown one by one (nil: the job as a whole).
func (t JobTargets) Match(job *pb.Job) ([]*pb.ArrayRange, bool) {
	if len(t) == 0 {
		return nil, true
	}
	var chosen []*pb.ArrayRange
	for _, target := range t {
		if target.Job != job.GetId().GetJob() && target.Job != job.ArrayJobId {
			continue
		}
		waiting := job.GetWaitingTasks().GetRanges()
		switch {
		case !target.HasTasks:
			return nil, true
		case len(waiting) > 0:
			chosen = append(chosen, intersection(waiting, target.Tasks)...)
		case job.GetId() != nil && job.Id.ArrayTask != nil && spec.ContainsTask(target.Tasks, job.GetId().GetArrayTask()):
			return nil, true
		}
	}
	return spec.NormalizeRanges(chosen), len(chosen) > 0
}

// intersection of two sets of tasks; empty and nil differ: nil is no set.
func intersection(a, b []*pb.ArrayRange) []*pb.ArrayRange {
	common := spec.Intersect(a, b)
	if common == nil {
		common = []*pb.ArrayRange{}
	}
	return common
}

// JobRows makes the lines that a job is shown as: one, or one for each of the
// tasks.
func JobRows(job *pb.Job, tasks []*pb.ArrayRange, view *View, add func(*JobRow) error) error {
	if tasks == nil {
		return add(&JobRow{job: job, view: view})
	}
	for _, span := range tasks {
		for task := uint64(span.First); task <= uint64(span.Last); task += uint64(max(span.Step, 1)) {
			index := uint32(task)
			if err := add(&JobRow{job: job, view: view, task: &index}); err != nil {
				return err
			}
		}
	}
	return nil
}
