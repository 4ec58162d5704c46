package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
)

// UnknownJob is the message for a number that no visible record has: it says
// whether the number was ever given out, since jobs are forgotten after a
// while. member belongs to the array of that number, if there is one, in which
// no record has the tasks.
func (t *tables) UnknownJob(id uint32, member *Job, tasks []ranges.Range) string {
	if id == 0 || id >= t.nextJob || member != nil && len(ranges.Subtract(tasks, member.Spec.ArrayTasks)) > 0 {
		return textUnknownJob
	}
	return fmt.Sprintf("%s: jobs are forgotten when they are over for more than %d s (MinJobAge), and this number was given out", textUnknownJob, t.policy.MinJobAgeS)
}

// unknownTasks answers for tasks that were named and that no record has.
func (s *State) unknownTasks(who requester, array uint32, tasks []ranges.Range) JobResult {
	var member *Job
	if ids := s.seen(who, s.memberIDs(array)); len(ids) > 0 {
		member, _ = s.Job(ids[0])
	}
	if s.hidesFrom(who) {
		return JobResult{Job: array, Array: array, Tasks: tasks, Code: NotFound, Message: textUnknownJob}
	}
	return JobResult{Job: array, Array: array, Tasks: tasks, Code: NotFound, Message: s.UnknownJob(array, member, tasks)}
}

// hidesFrom reports whether jobs are hidden from the caller, who then learns
// nothing about numbers.
func (s *State) hidesFrom(who requester) bool {
	return !who.privileged && !who.seesAll && s.policy.Hides("jobs")
}
