package state

import (
	"cmp"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file decides dependencies when the jobs that they name start and end. It
// is done at the end of the command that starts or ends them, for all jobs that
// depend on them, which an index finds; so what is forgotten later is decided
// already. The end of a job may cancel others (--kill-on-invalid-dep) and so
// decide further dependencies: it uses a queue instead of recursion, because a
// chain may be long.

// noteMove remembers until resolve that a job started or is over.
func (s *State) noteMove(old, job *Job) {
	started := job.Phase == Running && (old == nil || old.Phase == Waiting)
	over := job.Phase == Finished && (old == nil || old.Phase != Finished)
	if started || over {
		s.moved = append(s.moved, job.ID)
	}
	// A new job that waits comes after all others of its name.
	if old == nil && job.Phase != Waiting || old != nil && (old.Phase != job.Phase || old.own != job.own) {
		s.noteName(old)
		s.noteName(job)
	}
}

// resolve decides what follows from the jobs that moved.
func (s *State) resolve() {
	for len(s.moved) > 0 || len(s.movedNames) > 0 {
		moved := s.moved
		s.moved = nil
		for _, id := range moved {
			job, _ := s.Job(id)
			for _, dependent := range idsUnder(s.dependents, cmp.Or(job.Array, job.ID), math.MaxInt) {
				s.resolveFor(dependent, job)
			}
		}
		names := s.movedNames
		s.movedNames = nil
		slices.Sort(names)
		for _, key := range slices.Compact(names) {
			s.resolveSingletons(key)
		}
	}
}

// resolveFor decides the dependencies of a waiting job on one that moved.
func (s *State) resolveFor(id uint32, moved *Job) {
	waiting, known := s.Job(id)
	if !known || waiting.Phase != Waiting {
		return
	}
	number := cmp.Or(moved.Array, moved.ID)
	next := *waiting
	next.Dependencies.List = slices.Clone(waiting.Dependencies.List)
	changed, byTask := false, false
	for i := range next.Dependencies.List {
		one := &next.Dependencies.List[i]
		switch {
		case one.Job != number || one.State != Unfulfilled:
		case one.Kind == spec.AfterCorr:
			byTask = moved.Phase == Finished
		case !one.HasTask || moved.containsTask(one.Task):
			s.judge(one)
			changed = changed || one.State != Unfulfilled
		}
	}
	if changed {
		s.putDependent(waiting, &next)
		waiting = &next
	}
	if byTask && waiting.Phase == Waiting {
		s.resolveTasks(waiting, number, moved.ownTasks(), moved.endedWell())
	}
}

// resolveTasks decides the aftercorr of those tasks of a record whose
// counterparts in an array are over. They are split off, if others are left.
func (s *State) resolveTasks(waiting *Job, array uint32, tasks []ranges.Range, well bool) {
	mine := waiting.tasksWithin(tasks)
	if len(mine) == 0 {
		return
	}
	next := *waiting
	next.Dependencies.List = slices.Clone(waiting.Dependencies.List)
	for i := range next.Dependencies.List {
		if one := &next.Dependencies.List[i]; one.Kind == spec.AfterCorr && one.Job == array && one.State == Unfulfilled {
			one.State = Failed
			if well {
				one.State = Fulfilled
			}
		}
	}
	if waiting.HasTask || slices.Equal(mine, waiting.Tasks) {
		s.putDependent(waiting, &next)
		return
	}
	if s.nextJob > bounds.MaxJobID {
		return
	}
	s.becomes(waiting, &next)
	s.split(waiting, &next, ranges.Subtract(waiting.Tasks, mine), mine)
}

// putDependent stores a job after one of its dependencies was decided.
func (s *State) putDependent(before, after *Job) {
	s.becomes(before, after)
	s.putJob(after)
}

// becomes fills in what follows for a waiting job from other dependencies: from
// when on it ages, and that it is cancelled if they can never be met and it
// wants that.
func (s *State) becomes(before, after *Job) {
	s.keepAge(before, after)
	s.cancelInvalid(after)
}

// cancelInvalid cancels a waiting job whose dependency can never be met, if it
// wants that.
func (s *State) cancelInvalid(after *Job) {
	if state, _ := after.Dependencies.standing(); state == Failed && after.Spec.KillOnInvalidDependency {
		after.Phase = Finished
		after.Saved = after.Saved.over()
		after.End = &End{
			State: pb.JobState_JOB_STATE_CANCELLED, Reason: ReasonDependencyNeverSatisfied, EndMS: s.timeMS,
			Detail: "cancelled, because its dependency can never be met: " + bounds.Clip(after.Dependencies.Text(s.timeMS, nil), 256),
		}
	}
}

// judge decides a dependency on a job, if that can be done now. It is not for
// singletons, nor for aftercorr.
func (s *State) judge(one *Dependency) {
	begun, over, well, beganMS := s.courseOf(one)
	switch {
	case one.Kind == spec.After && (begun || over):
		one.State = Fulfilled
		if one.DelayS > 0 {
			one.MetMS = beganMS
		}
	case !over || one.Kind == spec.After:
	case one.Kind == spec.AfterAny, well == (one.Kind == spec.AfterOK):
		one.State = Fulfilled
	default:
		one.State = Failed
	}
}

// courseOf is how far the job or task of a dependency has come, or all tasks of
// an array together. A requeued job has begun, and is not over.
func (s *State) courseOf(one *Dependency) (begun, over, well bool, beganMS int64) {
	if one.HasTask {
		job, known := s.JobByTask(one.Job, one.Task)
		if !known { // forgotten: checkTarget has made sure that it is known how it ended
			return true, true, true, s.timeMS
		}
		return job.Phase != Waiting, job.Phase == Finished, job.endedWell(), job.beganMS()
	}
	if job, known := s.Job(one.Job); known && job.Array == 0 {
		return job.Phase != Waiting, job.Phase == Finished, job.endedWell(), job.beganMS()
	}
	over = len(idsUnder(s.members, one.Job, 1)) == 0
	if one.Kind == spec.After {
		begun, beganMS = s.arrayBegan(one.Job)
		return begun, over, false, beganMS
	}
	return true, over, over && s.arrayEndedWell(one.Job), 0
}

// arrayBegan reports whether no task of an array waits, and when the last began.
// The record with the array's own number is the last to start, as a rule.
func (s *State) arrayBegan(array uint32) (begun bool, lastMS int64) {
	if job, live := s.live.Get(array); live && job.Phase == Waiting {
		return false, 0
	}
	for _, id := range idsUnder(s.members, array, math.MaxInt) {
		if job, _ := s.live.Get(id); job.Phase == Waiting {
			return false, 0
		}
	}
	for member := range s.Members(array) {
		lastMS = max(lastMS, member.beganMS())
	}
	return true, lastMS
}

// arrayEndedWell reports whether all tasks of a finished array succeeded.
func (s *State) arrayEndedWell(array uint32) bool {
	for _, id := range idsUnder(s.pastMembers, array, math.MaxInt) {
		if job, _ := s.past.Get(id); !job.endedWell() || job.TasksFailed {
			return false
		}
	}
	return true
}

// beganMS is when a job began to run, or ended without having run.
func (j *Job) beganMS() int64 {
	switch {
	case j.Run != nil:
		return j.Run.StartMS
	case j.End != nil:
		return j.End.EndMS
	}
	return 0
}

func (j *Job) endedWell() bool {
	return j.Phase == Finished && j.End.State == pb.JobState_JOB_STATE_COMPLETED
}

// ownTasks are the tasks of its array that a record holds.
func (j *Job) ownTasks() []ranges.Range {
	if j.HasTask {
		return []ranges.Range{{First: j.Task, Last: j.Task, Step: 1}}
	}
	return j.Tasks
}

// rememberFailure passes on that a task of an array failed, when its record is
// forgotten: what depends on the array as a whole is decided when its last task
// is over. Any record that is left of the array keeps it.
func (s *State) rememberFailure(job *Job) {
	if job.Array == 0 || job.endedWell() && !job.TasksFailed {
		return
	}
	heirs := idsUnder(s.members, job.Array, 1)
	if len(heirs) == 0 {
		heirs = idsUnder(s.pastMembers, job.Array, 1)
	}
	if len(heirs) == 0 {
		return
	}
	if heir, _ := s.Job(heirs[0]); !heir.TasksFailed {
		next := *heir
		next.TasksFailed = true
		s.putJob(&next)
	}
}
