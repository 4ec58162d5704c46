package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// toRanges and fromRanges convert between the record's ranges and those of the
// API, whose arithmetic (normal forms, removal, intersection) is in proto/spec.

func toRanges(tasks []TaskRange) []*pb.ArrayRange {
	ranges := make([]*pb.ArrayRange, len(tasks))
	for i, r := range tasks {
		ranges[i] = &pb.ArrayRange{First: r.First, Last: r.Last, Step: r.Step}
	}
	return ranges
}

func fromRanges(ranges []*pb.ArrayRange) []TaskRange {
	if len(ranges) == 0 {
		return nil
	}
	tasks := make([]TaskRange, len(ranges))
	for i, r := range ranges {
		tasks[i] = TaskRange{First: r.GetFirst(), Last: r.GetLast(), Step: r.GetStep()}
	}
	return tasks
}

func arraySpec(r *Spec) *pb.ArraySpec {
	return &pb.ArraySpec{Ranges: toRanges(r.ArrayTasks), MaxRunning: r.MaxRunning}
}

// TaskCount is the number of tasks in a record: 1 for a plain job and for a
// single task.
func (j *Job) TaskCount() uint32 {
	if j.Array == 0 || j.HasTask {
		return 1
	}
	return countTasks(j.Tasks)
}

// countTasks is how many tasks normal ranges hold.
func countTasks(ranges []TaskRange) uint32 {
	count := uint32(0)
	for _, r := range ranges {
		count += (r.Last-r.First)/r.Step + 1
	}
	return count
}

func (j *Job) containsTask(task uint32) bool {
	if j.Array == 0 {
		return false
	}
	if j.HasTask {
		return j.Task == task
	}
	for _, r := range j.Tasks {
		if task <= r.Last {
			return task >= r.First && (task-r.First)%r.Step == 0
		}
	}
	return false
}

// subtract is tasks without those in remove. Both are normal.
func subtract(tasks, remove []TaskRange) []TaskRange {
	var left []*pb.ArrayRange
	removed := toRanges(remove)
	for _, r := range toRanges(tasks) {
		left = append(left, cut(r, spec.Intersect([]*pb.ArrayRange{r}, removed))...)
	}
	return fromRanges(spec.NormalizeRanges(left))
}

// cut is what is left of one range without holes, which are within it.
func cut(r *pb.ArrayRange, holes []*pb.ArrayRange) []*pb.ArrayRange {
	var left []*pb.ArrayRange
	next := r.First // the first task not decided yet
	keep := func(before uint32) {
		if before > next {
			left = append(left, &pb.ArrayRange{First: next, Last: before - r.Step, Step: r.Step})
		}
	}
	for _, hole := range holes {
		if hole.First == hole.Last || hole.Step == r.Step {
			keep(hole.First)
			next = hole.Last + r.Step
			continue
		}
		for task := hole.First; task <= hole.Last; task += hole.Step {
			keep(task)
			next = task + r.Step
		}
	}
	keep(r.Last + r.Step)
	return left
}
