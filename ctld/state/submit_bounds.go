package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// MaySubmit refuses one more submission of a user, with a number of tasks, by
// the limits that hold without accounts.
func (t *tables) MaySubmit(uid uint32, tasks int) *Refusal {
	counts, _ := t.users.Get(uid)
	if counts.Bytes >= spec.MaxUserBytes {
		return refuse(Exhausted, "%s\nthe scripts, environments and arguments of this user's jobs take %s, and may take %s: put data into files, export less (--export), or submit again when jobs have ended and are forgotten (min_job_age)",
			textPolicyLimit, spec.FormatSize(counts.Bytes&^(1<<20-1)), spec.FormatSize(spec.MaxUserBytes))
	}
	return t.mayQueue(uid, tasks)
}

// mayQueue refuses a number of additional waiting jobs of one user. Jobs that
// wait or run count, an array each of its tasks; a requeued job counts as
// before. The limit of the user comes first: a user at that limit keeps nobody
// else out.
func (t *tables) mayQueue(uid uint32, tasks int) *Refusal {
	counts, _ := t.users.Get(uid)
	if limit := t.policy.MaxSubmitJobs(); int64(counts.Submitted)+int64(tasks) > int64(limit) {
		return refuse(Exhausted, "%s\n%d jobs of this user wait or run and this would add %d: one user may have %d (max_submit_jobs_per_user; an array counts each task). Submit again when some of them have ended",
			textPolicyLimit, counts.Submitted, tasks, limit)
	}
	if limit := t.policy.MaxJobCount; t.submitted+uint64(tasks) > uint64(limit) {
		return refuse(Exhausted, "the queue is full: there may be %d jobs that wait or run (max_job_count; an array counts each task). Submit again later", limit)
	}
	return nil
}

// Tasks is how many jobs a submission adds: those of its array, or one.
func (c *SubmitJob) Tasks() int {
	if !c.Spec.IsArray() || spec.CheckArray(arraySpec(&c.Spec)) != nil {
		return 1 // a wrong array is refused elsewhere
	}
	return int(ranges.Count(ranges.FromMessages(spec.NormalizeRanges(ranges.Messages(c.Spec.ArrayTasks)))))
}
