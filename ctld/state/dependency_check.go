package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkDependencies says what is wrong with the dependencies of a job, which
// may not be stored yet. It also names their jobs as they are stored: an array
// by its own number, a task by that and its index.
func (s *State) checkDependencies(job *Job, d *Dependencies, who requester) *Refusal {
	if len(d.List) > spec.MaxDependencies {
		return problem(Exhausted, "more than %d jobs are named: make an array of them and depend on that", spec.MaxDependencies)
	}
	d.List = slices.Clone(d.List)
	for i := range d.List {
		one := &d.List[i]
		one.State, one.MetMS = Unfulfilled, 0
		if one.Kind == spec.Singleton {
			if one.Job != 0 || one.HasTask {
				return problem(Invalid, "singleton names no job: type it alone")
			}
			continue
		}
		if one.Kind < spec.After || one.Kind > spec.Singleton || one.DelayS > spec.MaxDependencyDelayMinutes*60 || one.DelayS > 0 && one.Kind != spec.After {
			return problem(Invalid, "type %d, or its time, makes no sense", one.Kind)
		}
		if refused := s.checkTarget(job, one, who); refused != nil {
			return refused
		}
	}
	return s.checkCircle(job, d)
}

func problem(code Code, format string, arguments ...any) *Refusal {
	return refuse(code, spec.DependencyProblem+": "+format, arguments...)
}

// checkTarget finds the job of a dependency.
func (s *State) checkTarget(job *Job, one *Dependency, who requester) *Refusal {
	if one.Job == 0 {
		return problem(Invalid, "there is no job 0: job numbers begin at 1")
	}
	if s.hidesTarget(one, who) {
		return s.forgottenTarget(one)
	}
	if other, known := s.Job(one.Job); known && other.Array != 0 && other.ID != other.Array {
		// A task may be named by its own number too.
		if one.HasTask || !other.HasTask {
			return problem(Invalid, "job %d is an allocation of array %d: name the array, or its tasks as %d_N", one.Job, other.Array, other.Array)
		}
		one.Job, one.HasTask, one.Task = other.Array, true, other.Task
	}
	member := s.anyMember(one.Job)
	_, known := s.Job(one.Job)
	switch {
	case member == nil && (!known || one.HasTask):
		return s.unknownTarget(one)
	case one.HasTask:
		if _, known := s.JobByTask(one.Job, one.Task); known {
			break
		}
		if !(&Job{Array: one.Job, Tasks: member.Spec.ArrayTasks}).containsTask(one.Task) {
			return problem(NotFound, "array %d has no task %d: it has %s", one.Job, one.Task, spec.FormatArray(ranges.Messages(member.Spec.ArrayTasks), 0))
		}
		if s.someForgottenFailed(one.Job) {
			return problem(NotFound, "task %d of array %d is over, and how it ended is forgotten (min_job_age): submit without it", one.Task, one.Job)
		}
	}
	switch {
	case member == nil && one.Job == job.ID || member != nil && one.Job == job.Array && job.Array != 0 && (!one.HasTask || job.containsTask(one.Task)):
		return problem(Invalid, "job %d cannot wait for itself: leave it out", one.Job)
	case one.Kind != spec.AfterCorr:
		return nil
	case member == nil, one.HasTask, job.Array == 0:
		// Where one of the two has no tasks to go by, each waits for the whole other.
		one.Kind = spec.AfterOK
		return nil
	}
	if missing := ranges.Subtract(job.ownTasks(), member.Spec.ArrayTasks); len(missing) > 0 {
		return problem(Invalid, "array %d has no task %s, which aftercorr would wait for: make the arrays alike, or use afterok:%d", one.Job, spec.FormatArray(ranges.Messages(missing[:1]), 0), one.Job)
	}
	if s.someForgottenFailed(one.Job) {
		return problem(NotFound, "some tasks of array %d have failed and are forgotten (min_job_age), and which is not known: use afterany:%d, or submit the array again", one.Job, one.Job)
	}
	return nil
}

func (s *State) unknownTarget(one *Dependency) *Refusal {
	if one.Job >= s.nextJob {
		return problem(NotFound, "job %d is not known: no job has had that number yet", one.Job)
	}
	if _, known := s.Job(one.Job); known {
		return problem(Invalid, "job %d is no array, and has no task %d: name it as %d", one.Job, one.Task, one.Job)
	}
	return s.forgottenTarget(one)
}

// hidesTarget reports whether the caller must not learn of the job of a
// dependency.
func (s *State) hidesTarget(one *Dependency, who requester) bool {
	other := s.anyMember(one.Job)
	if other == nil {
		other, _ = s.Job(one.Job)
	}
	return other != nil && !s.sees(who, other)
}

func (s *State) forgottenTarget(one *Dependency) *Refusal {
	return problem(NotFound, "job %d is not known any more: it was over more than min_job_age (%d s) ago; submit without waiting for it", one.Job, s.policy.MinJobAgeS)
}

// anyMember is some record of an array; nil when there is none.
func (s *State) anyMember(array uint32) *Job {
	ids := idsUnder(s.members, array, 1)
	if len(ids) == 0 {
		ids = idsUnder(s.pastMembers, array, 1)
	}
	if len(ids) == 0 {
		return nil
	}
	job, _ := s.Job(ids[0])
	return job
}

// isArray reports whether a number is an array's of which some task is known.
func (t *tables) isArray(number uint32) bool {
	return len(idsUnder(t.members, number, 1)) > 0 || len(idsUnder(t.pastMembers, number, 1)) > 0
}

// someForgottenFailed reports whether a forgotten task of an array failed.
func (s *State) someForgottenFailed(array uint32) bool {
	for member := range s.Members(array) {
		if member.TasksFailed {
			return true
		}
	}
	return false
}

// checkCircle refuses a job that would wait for itself through others. A new
// job never does, because nobody can wait for it yet.
func (s *State) checkCircle(job *Job, d *Dependencies) *Refusal {
	if _, stored := s.Job(job.ID); !stored {
		return nil
	}
	self := cmp.Or(job.Array, job.ID)
	seen := map[uint32]bool{}
	var queue []uint32
	add := func(list []Dependency) {
		for _, one := range list {
			if one.Job != 0 && one.State == Unfulfilled && !seen[one.Job] {
				seen[one.Job] = true
				queue = append(queue, one.Job)
			}
		}
	}
	add(d.List)
	for looked := 0; len(queue) > 0; looked++ {
		if looked == bounds.MaxDependencySearch {
			return problem(Exhausted, "more than %d jobs wait for one another: make the chain shorter", bounds.MaxDependencySearch)
		}
		number := queue[0]
		queue = queue[1:]
		if number == self {
			return problem(Invalid, "job %d waits for this one, directly or through others, which would wait for ever: leave it out", d.List[0].Job)
		}
		if other, known := s.live.Get(number); known && other.Array == 0 {
			add(other.Dependencies.List)
		}
		for _, id := range idsUnder(s.members, number, bounds.MaxDependencySearch) {
			other, _ := s.live.Get(id)
			add(other.Dependencies.List)
		}
	}
	return nil
}

// decideDependencies fills in what is decided already of a waiting job's
// checked dependencies, and splits off the tasks whose counterparts are over:
// see decideTasks.
func (s *State) decideDependencies(job *Job) {
	for i := range job.Dependencies.List {
		if one := &job.Dependencies.List[i]; one.Kind != spec.Singleton && one.Kind != spec.AfterCorr {
			s.judge(one)
		}
	}
	if job.Dependencies.has(spec.Singleton) {
		s.judgeSingleton(job)
	}
}

// decideTasks decides the aftercorr of the tasks of a stored record whose
// counterparts are over already.
func (s *State) decideTasks(id uint32) {
	job, _ := s.Job(id)
	for _, one := range job.Dependencies.List {
		if one.Kind != spec.AfterCorr {
			continue
		}
		alive, bad := []ranges.Range(nil), []ranges.Range(nil)
		for member := range s.Members(one.Job) {
			switch {
			case member.Phase != Finished:
				alive = append(alive, member.ownTasks()...)
			case !member.endedWell():
				bad = append(bad, member.ownTasks()...)
			}
		}
		alive, bad = normalTasks(alive), normalTasks(bad)
		for _, of := range []struct {
			tasks []ranges.Range
			well  bool
		}{{bad, false}, {ranges.Subtract(ranges.Subtract(job.ownTasks(), alive), bad), true}} {
			if left, _ := s.Job(id); left.Phase == Waiting {
				s.resolveTasks(left, one.Job, of.tasks, of.well)
			}
		}
	}
}

func normalTasks(tasks []ranges.Range) []ranges.Range {
	return ranges.FromMessages(spec.NormalizeRanges(ranges.Messages(tasks)))
}
