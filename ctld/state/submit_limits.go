package state

import (
	"fmt"
	"maps"

	"github.com/gleaner-hpc/gleaner/sched"
)

// submissions counts what waits and runs, for the limits of what may be
// submitted. It belongs to the State alone, is made when the first submission
// asks for it, and kept in step by the index functions until accounts or the
// policy change. Nothing but limits and what the policy says goes into an
// answer, so that it does not matter when it was made.
type submissions struct {
	policy   *Policy // as it was
	snapshot sched.Snapshot
	index    *schedIndex
	limiter  *sched.Limiter
}

func (s *State) submissionCounts() *submissions {
	if s.submitted != nil {
		return s.submitted
	}
	counts := &submissions{policy: s.policy}
	counts.snapshot, counts.index = s.schedRules(s.timeMS)
	counts.limiter = sched.NewLimiter(&counts.snapshot)
	s.submitted = counts
	s.live.Scan(func(_ uint32, job *Job) bool {
		s.countSubmitted(job, 1)
		return true
	})
	return counts
}

// countSubmitted counts the tasks of a record that is not over; times is -1 to
// take them back.
func (s *State) countSubmitted(job *Job, times int64) {
	if counts := s.submitted; counts != nil && job.Phase != Finished {
		counts.limiter.Submit(counts.index.charge(counts.policy, job), times*int64(job.TaskCount()))
	}
}

// Slurm's words for what a limit refuses at submission.
const textPolicyLimit = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"

// checkLimits refuses what limits and licenses do not let in, and bounds the
// time of a job that names none by what it may ask for at most. The spec has
// the defaults filled in, its account and QOS too.
func (s *State) checkLimits(asked *Spec, owner *Owner, association uint32, timeGiven bool) *Refusal {
	if refused := s.policy.checkLicenses(asked.Licenses); refused != nil || !s.policy.Accounting.limits() {
		return refused
	}
	counts := s.submissionCounts()
	charge := sched.Charge{
		Association: counts.index.association(association), QOS: counts.index.qosNamed(asked.QOS), UID: owner.UID,
		Licenses: schedLicenses(&counts.snapshot, len(s.policy.Licenses), asked.Licenses),
	}
	if !timeGiven {
		charge.Partition = s.policy.position(asked.Partitions[0])
		asked.TimeLimitS = min(asked.TimeLimitS, counts.limiter.LongestS(charge))
	}
	charge.TimeLimitS = asked.TimeLimitS
	if refused := counts.neverStarts(charge, s.policy, asked, owner); refused != nil {
		return refused
	}
	charge.Partition = s.policy.position(asked.Partitions[0])
	tasks := int64(1)
	if asked.IsArray() {
		tasks = int64(countTasks(asked.ArrayTasks))
	}
	if reached := counts.limiter.StopsSubmission(charge, tasks); reached != nil {
		return refuse(Exhausted, "%s\n%s: %s. Submit again when some of them have ended", textPolicyLimit, reached.Reason(counts.snapshot), reached.Sentence(counts.snapshot))
	}
	return nil
}

// neverStarts refuses a job that limits let start in none of its partitions.
// What is said is of the first one.
func (c *submissions) neverStarts(charge sched.Charge, policy *Policy, asked *Spec, owner *Owner) *Refusal {
	shape, err := shapeOf(asked, owner)
	if err != nil {
		return refuse(Invalid, "%v", err)
	}
	var first *sched.LimitReached
	for _, name := range asked.Partitions {
		charge.Partition = policy.position(name)
		ask := c.limiter.AskLeast(charge, &shape.Request)
		reached := c.limiter.NeverStarts(charge, &ask)
		if reached == nil {
			return nil
		}
		if first == nil {
			first = reached
		}
	}
	return refuse(Invalid, "%s\n%s: %s", textPolicyLimit, first.Reason(c.snapshot), first.Sentence(c.snapshot))
}

// checkSubmitted compares the counts with some that are made anew.
func (s *State) checkSubmitted() error {
	if s.submitted == nil {
		return nil
	}
	kept := s.submitted
	s.submitted = nil
	fresh := s.submissionCounts()
	s.submitted = kept
	if have, want := kept.limiter.Submitted(), fresh.limiter.Submitted(); !maps.Equal(have, want) {
		return fmt.Errorf("submitted tasks are counted as %v, and are %v", have, want)
	}
	return nil
}
