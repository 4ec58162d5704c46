package api

import (
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// targets are the jobs that a cancel or control request means. Ids and tasks
// name jobs; without a condition all of these are meant, so that unknown ones
// get an answer too. With conditions, only those that meet them.
func (s *Controller) targets(from *caller, filterMessage *pb.JobFilter, tasks []*pb.ArrayTasks) ([]state.Target, error) {
	f, err := newFilter(filterMessage)
	if err != nil {
		return nil, err
	}
	named, err := taskTargets(tasks)
	if err != nil {
		return nil, err
	}
	if err := checkRepeated(append(named, idTargets(f.ids)...)); err != nil {
		return nil, err
	}
	f.tasks = tasks
	switch {
	case f.conditional():
	case f.names():
		return merge(append(named, idTargets(f.ids)...)), nil
	case f.all:
		return nil, invalid("all jobs of everyone are not meant: add a user, a name, a partition or a state")
	default:
		return nil, invalid("no job is selected: give job ids, or conditions such as a user, a name, a partition or a state")
	}
	matching, err := f.choose(s.sightOf(from, s.cluster.View()))
	if err != nil {
		return nil, err
	}
	var targets []state.Target
	for chosen := range matching {
		targets = append(targets, targetOf(chosen))
	}
	return merge(targets), nil
}

// merge leaves each array and each task in once, because a command looks
// through the members of an array for each target that names it: the same array
// ten thousand times would block the log.
func merge(targets []state.Target) []state.Target {
	whole := make(map[uint32]bool)
	ranges := make(map[uint32][]*pb.ArrayRange)
	for _, target := range targets {
		whole[target.Job] = whole[target.Job] || len(target.Tasks) == 0
		ranges[target.Job] = append(ranges[target.Job], pbRanges(target.Tasks)...)
	}
	merged := make([]state.Target, 0, len(whole))
	for _, target := range targets {
		of, first := ranges[target.Job]
		delete(ranges, target.Job)
		switch {
		case !first:
		case whole[target.Job]:
			merged = append(merged, state.Target{Job: target.Job})
		default:
			for chunk := range slices.Chunk(spec.NormalizeRanges(of), spec.MaxArrayRanges) {
				merged = append(merged, state.Target{Job: target.Job, Tasks: taskRanges(chunk)})
			}
		}
	}
	return merged
}

func taskTargets(tasks []*pb.ArrayTasks) ([]state.Target, error) {
	if len(tasks) > spec.MaxJobTargets {
		return nil, invalid("%d arrays in one request: at most %d", len(tasks), spec.MaxJobTargets)
	}
	for _, of := range tasks {
		if of.GetJob() == 0 || len(of.GetRanges()) == 0 {
			return nil, invalid("Invalid job id specified: tasks of an array need its number and at least one range")
		}
		if !ascending(of.GetRanges()) {
			return nil, invalid("tasks of array %d: give its ranges in ascending order, not overlapping", of.GetJob())
		}
		if err := spec.CheckArray(&pb.ArraySpec{Ranges: of.GetRanges()}); err != nil {
			return nil, invalid("tasks of array %d: %v", of.GetJob(), err)
		}
	}
	return state.TargetsFromTasks(tasks), nil
}

// ascending reports whether ranges need no sorting out, which is work for each
// task between the first and the last: not for 65,536 arrays in one request.
func ascending(ranges []*pb.ArrayRange) bool {
	for i, r := range ranges {
		if i > 0 && r.GetFirst() <= ranges[i-1].GetLast() {
			return false
		}
	}
	return true
}

// maxRepeated bounds the tasks between the first and the last of arrays that
// are named several times: their ranges have to be sorted out.
const maxRepeated = 8 * (spec.MaxArrayIndex + 1)

func checkRepeated(targets []state.Target) error {
	type span struct{ times, first, last uint32 }
	spans := make(map[uint32]span)
	for _, target := range targets {
		if len(target.Tasks) == 0 {
			continue
		}
		first, last := target.Tasks[0].First, target.Tasks[len(target.Tasks)-1].Last
		if of, known := spans[target.Job]; known {
			spans[target.Job] = span{of.times + 1, min(of.first, first), max(of.last, last)}
		} else {
			spans[target.Job] = span{1, first, last}
		}
	}
	sum := 0
	for _, of := range spans {
		if of.times > 1 {
			sum += int(of.last-of.first) + 1
		}
	}
	if sum > maxRepeated {
		return invalid("too many arrays are named several times: name each once, as in 12_[1-5,9]")
	}
	return nil
}

func taskRanges(asked []*pb.ArrayRange) []ranges.Range {
	converted := make([]ranges.Range, 0, len(asked))
	for _, r := range asked {
		converted = append(converted, ranges.Range{First: r.GetFirst(), Last: r.GetLast(), Step: max(r.GetStep(), 1)})
	}
	return converted
}

func pbRanges(ranges []ranges.Range) []*pb.ArrayRange {
	converted := make([]*pb.ArrayRange, 0, len(ranges))
	for _, r := range ranges {
		converted = append(converted, &pb.ArrayRange{First: r.First, Last: r.Last, Step: r.Step})
	}
	return converted
}

func idTargets(ids []*pb.JobId) []state.Target {
	targets := make([]state.Target, 0, len(ids))
	for _, id := range ids {
		target := state.Target{Job: id.GetJob()}
		if id.ArrayTask != nil {
			target.Tasks = []ranges.Range{{First: id.GetArrayTask(), Last: id.GetArrayTask(), Step: 1}}
		}
		targets = append(targets, target)
	}
	return targets
}

// targetOf names one record and no other: the number of an array's own record
// would mean all its members.
func targetOf(chosen selected) state.Target {
	job := chosen.job
	switch {
	case chosen.tasks != nil:
		return state.Target{Job: job.Array, Tasks: taskRanges(spec.NormalizeRanges(chosen.tasks))}
	case job.HasTask:
		return state.Target{Job: job.Array, Tasks: []ranges.Range{{First: job.Task, Last: job.Task, Step: 1}}}
	case job.Array != 0:
		return state.Target{Job: job.Array, Tasks: job.Tasks}
	}
	return state.Target{Job: job.ID}
}

// chunkID names the n-th command of a request that needs several, so that a
// retry repeats each of them.
func chunkID(id state.RequestID, n int) state.RequestID {
	if n == 0 || id == (state.RequestID{}) {
		return id
	}
	return state.RequestID(uuid.NewSHA1(uuid.UUID(id), []byte{byte(n >> 8), byte(n)}))
}

// jobResults turns the result of a command into the answer.
func jobResults(results []state.JobResult) []*pb.JobResult {
	answers := make([]*pb.JobResult, 0, len(results))
	for i := range results {
		result := &results[i]
		id := &pb.JobId{Job: result.Job}
		if result.HasTask {
			task := result.Task
			id = &pb.JobId{Job: result.Array, ArrayTask: &task}
		} else if result.Array != 0 {
			id.Job = result.Array
		}
		answer := &pb.JobResult{Id: id, Error: result.Message, AlreadyDone: result.Code == state.AlreadyDone, Image: result.Image}
		if result.Code == state.NotFound && len(result.Tasks) > 0 {
			answers = append(answers, unknownTasks(answer, result.Tasks)...)
			continue
		}
		answers = append(answers, answer)
	}
	return answers
}

// maxUnknown bounds the tasks of one array that get separate answers.
const maxUnknown = 1000

// unknownTasks repeats an answer for each task that nobody has.
func unknownTasks(answer *pb.JobResult, tasks []ranges.Range) []*pb.JobResult {
	var answers []*pb.JobResult
	for _, r := range tasks {
		for task := r.First; task <= r.Last && len(answers) < maxUnknown; task += r.Step {
			answers = append(answers, &pb.JobResult{Id: &pb.JobId{Job: answer.Id.Job, ArrayTask: proto.Uint32(task)}, Error: answer.Error})
		}
	}
	return answers
}
