package state

import (
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Target names the jobs a command is for: the number of an array means its
// members, unless tasks are given; any other number means one job. When more
// than MaxPastMeant of the members are over and others are not, those that are
// over are not meant; otherwise what is left of an array would cost as much as
// the whole array did. A requeue is for all.
type Target struct {
	Job   uint32         `cbor:"1,keyasint"`
	Tasks []ranges.Range `cbor:"2,keyasint,omitempty"`
}

// requester is the caller, as the api established it.
type requester struct {
	uid        uint32
	privileged bool
	// coordinator is the login name of a user who may act on the jobs of
	// accounts as their users may; "" = none.
	coordinator string
	// seesAll: also jobs that private_data hides from others.
	seesAll bool
	// anyone may ask: the action says whose the job must be.
	anyone bool
}

// Slurm's sentences for jobs that could not be changed.
const (
	textUnknownJob  = "Invalid job id specified"
	textNotYours    = "Access/permission denied"
	textAlreadyOver = "Job/step already completing or completed"
	textNotPending  = "Job is no longer pending execution"
	textIsPending   = "Job is pending execution"
	textTryLater    = "Job cannot be altered now, try again later"
	textDisabled    = "Requested operation is presently disabled"
)

// action makes the changed record of one job record. It returns nil with a code
// and a sentence when there is nothing to change. It neither stores anything
// nor looks at which tasks the record holds, so that it can be tried for some
// of them.
type action func(job *Job) (changed *Job, code Code, message string)

// onTargets applies an action to each record that the targets name, and splits
// records if only some of their tasks are meant.
func (s *State) onTargets(targets []Target, who requester, result *Result, act action) {
	if len(targets) == 0 {
		result.Refused = refuse(Invalid, "no job is named")
		return
	}
	if len(targets) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d jobs in one request are too many: at most %d", len(targets), bounds.MaxTargets)
		return
	}
	guarded := func(job *Job) (*Job, Code, string) {
		if !who.anyone && !who.privileged && job.Owner().UID != who.uid && !s.Coordinates(who.coordinator, job) {
			return nil, Denied, textNotYours
		}
		changed, code, message := act(job)
		if changed != nil {
			s.keepAge(job, changed)
		}
		return changed, code, message
	}
	for i := range targets {
		target := &targets[i]
		if len(target.Tasks) > 0 {
			s.onTasks(target, who, result, guarded)
			continue
		}
		ids := s.seen(who, s.meant(target.Job, result.Kind))
		for _, id := range ids {
			if _, known := s.Job(id); !known && s.hidesFrom(who) {
				result.Jobs = append(result.Jobs, unknownJob(id))
				continue
			}
			s.onJob(id, result, guarded)
		}
		if len(ids) == 0 {
			result.Jobs = append(result.Jobs, unknownJob(target.Job))
		}
	}
}

// meant are the records that a number means, ascending: for a requeue all
// members of an array that are over, however many; for an update none, while
// others live.
func (s *State) meant(id uint32, kind Kind) []uint32 {
	most := bounds.MaxPastMeant
	switch kind {
	case KindRequeueJobs:
		most = math.MaxInt - 1
	case KindUpdateJobs:
		most = 0
	}
	members := idsUnder(s.members, id, math.MaxInt)
	if len(members) > 0 && len(idsUnder(s.pastMembers, id, most+1)) > most {
		return members
	}
	if members = s.memberIDs(id); len(members) > 0 {
		return members
	}
	return []uint32{id}
}

func (s *State) onJob(id uint32, result *Result, act action) {
	job, known := s.Job(id)
	if !known {
		result.Jobs = append(result.Jobs, JobResult{Job: id, Code: NotFound, Message: s.UnknownJob(id, nil, nil)})
		return
	}
	changed, code, message := act(job)
	if changed != nil {
		s.putJob(changed)
	}
	result.Jobs = append(result.Jobs, jobResult(job, code, message))
}

// unknownJob says nothing about a number that may belong to another user.
func unknownJob(id uint32) JobResult {
	return JobResult{Job: id, Code: NotFound, Message: textUnknownJob}
}

// onTasks acts on some tasks of one array, member by member.
func (s *State) onTasks(target *Target, who requester, result *Result, act action) {
	asked := ranges.Messages(target.Tasks)
	if err := spec.CheckArray(&pb.ArraySpec{Ranges: asked}); err != nil {
		result.Jobs = append(result.Jobs, JobResult{Job: target.Job, Array: target.Job, Tasks: target.Tasks, Code: Invalid, Message: err.Error()})
		return
	}
	wanted := ranges.FromMessages(spec.NormalizeRanges(asked))
	left := wanted
	for _, id := range s.seen(who, s.membersOf(target.Job, wanted)) {
		job, _ := s.Job(id)
		mine := job.tasksWithin(wanted)
		if len(mine) == 0 {
			continue
		}
		left = ranges.Subtract(left, mine)
		if job.HasTask || slices.Equal(mine, job.Tasks) {
			s.onJob(id, result, act)
			continue
		}
		result.Jobs = append(result.Jobs, s.onSomeTasks(job, mine, act))
	}
	if len(left) > 0 {
		result.Jobs = append(result.Jobs, s.unknownTasks(who, target.Job, left))
	}
}

// onSomeTasks splits tasks off a record and acts on them, or does neither.
func (s *State) onSomeTasks(job *Job, tasks []ranges.Range, act action) JobResult {
	answer := JobResult{Job: job.ID, Array: job.Array, Tasks: tasks}
	changed, code, message := act(job)
	if changed == nil {
		answer.Code, answer.Message = code, message
		return answer
	}
	rest := ranges.Subtract(job.Tasks, tasks)
	if refused := s.maySplit(job, rest, tasks); refused != nil {
		s.dropUnused(changed.Spec)
		answer.Code, answer.Message = refused.Code, refused.Message
		return answer
	}
	piece := s.split(job, changed, rest, tasks)
	return jobResult(piece, code, message)
}

// maySplit bounds how far an array can be fragmented.
func (s *State) maySplit(job *Job, rest, tasks []ranges.Range) *Refusal {
	switch {
	case s.nextJob > bounds.MaxJobID:
		return refuse(Exhausted, "no job numbers are left: this cluster has used all %d", uint32(bounds.MaxJobID))
	case len(rest) > spec.MaxArrayRanges:
		return refuse(Exhausted, "array %d would fall into more than %d ranges: name fewer or longer ranges", job.Array, spec.MaxArrayRanges)
	case !isOneTask(tasks) && s.groupCount(job.Array) >= bounds.MaxGroupsPerArray:
		return refuse(Exhausted, "array %d is in more than %d separate groups of tasks: act on the whole array", job.Array, bounds.MaxGroupsPerArray)
	}
	return nil
}

// split stores rest in the place of job, and changed with the given tasks and
// a number of its own.
func (s *State) split(job, changed *Job, rest, tasks []ranges.Range) *Job {
	remaining := *job
	remaining.Tasks = rest
	s.putJob(&remaining)
	piece := *changed
	piece.ID = s.nextJob
	s.nextJob++
	piece.Tasks = tasks
	if isOneTask(tasks) {
		piece.HasTask, piece.Task, piece.Tasks = true, tasks[0].First, nil
	}
	if before := piece; piece.Phase == Waiting && piece.Dependencies.has(singleton) && s.judgeSingleton(&piece) {
		s.keepAge(&before, &piece) // what is left of the record is before it
	}
	s.putJob(&piece)
	return &piece
}

func isOneTask(tasks []ranges.Range) bool {
	return len(tasks) == 1 && tasks[0].First == tasks[0].Last
}

// tasksWithin is which of the wanted tasks a member holds.
func (j *Job) tasksWithin(wanted []ranges.Range) []ranges.Range {
	mine := j.Tasks
	if j.HasTask {
		mine = []ranges.Range{{First: j.Task, Last: j.Task, Step: 1}}
	}
	return ranges.FromMessages(spec.Intersect(ranges.Messages(mine), ranges.Messages(wanted)))
}

// memberIDs are the numbers of an array's members, ascending.
func (t *tables) memberIDs(array uint32) []uint32 {
	ids := append(idsUnder(t.members, array, math.MaxInt), idsUnder(t.pastMembers, array, math.MaxInt)...)
	slices.Sort(ids)
	return ids
}

// membersOf are the members that may hold some of the tasks, ascending. Few
// tasks are looked up, many are found by going through all members.
func (t *tables) membersOf(array uint32, tasks []ranges.Range) []uint32 {
	const few = 1024
	if spec.CountTasks(ranges.Messages(tasks)) > few {
		return t.memberIDs(array)
	}
	ids := idsUnder(t.groups, array, math.MaxInt)
	for _, r := range tasks {
		for task := r.First; task <= r.Last; task += r.Step {
			if id, found := t.byTask.Get(pair(array, task)); found {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (t *tables) groupCount(array uint32) int { return len(idsUnder(t.groups, array, math.MaxInt)) }

func jobResult(job *Job, code Code, message string) JobResult {
	return JobResult{
		Job: job.ID, Array: job.Array, HasTask: job.HasTask, Task: job.Task, Tasks: job.Tasks,
		Code: code, Message: message,
	}
}
