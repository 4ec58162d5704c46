package state

import (
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Kinds of dependency that are looked for where a spec is at hand.
const (
	afterCorr = spec.AfterCorr
	singleton = spec.Singleton
)

// waitsAsOfOld says whether all that a submission waits for is understood by
// programs before LevelShares.
func (c *SubmitJob) waitsAsOfOld() bool {
	return len(c.Dependencies.List) == 0 && c.BeginMS == 0 && c.DeadlineMS == 0 && c.FixedPriority == 0 && !c.Spec.KillOnInvalidDependency
}

// takeWaits checks what a new job waits for, and fills it in with what is
// decided already.
func (s *State) takeWaits(c *SubmitJob, job *Job) *Refusal {
	dependencies := c.Dependencies
	if refused := s.checkDependencies(job, &dependencies); refused != nil {
		return refused
	}
	job.BeginMS, job.DeadlineMS, job.FixedPriority = max(c.BeginMS, 0), max(c.DeadlineMS, 0), c.FixedPriority
	if refused := s.checkDeadline(job); refused != nil {
		return refused
	}
	if len(dependencies.List) > 0 {
		job.Dependencies = dependencies
		s.decideDependencies(job)
	}
	if from, is := job.eligible(); is {
		job.EligibleMS = max(s.timeMS, from)
	}
	s.becomes(job, job)
	return nil
}

// checkDeadline refuses a deadline that the job cannot meet, in Slurm's words.
func (s *State) checkDeadline(job *Job) *Refusal {
	if job.DeadlineMS == 0 {
		return nil
	}
	if job.DeadlineMS <= s.timeMS {
		return refuse(Invalid, "Incorrect deadline: it is over already; give a later --deadline")
	}
	if start := max(job.BeginMS, s.timeMS); job.latestStartMS() < start {
		if job.Spec.TimeLimitS == sched.Unlimited {
			return refuse(Invalid, "Incorrect deadline: the job may not begin before it; give a later --deadline or an earlier --begin")
		}
		return refuse(Invalid, "Incorrect deadline: the time limit of %s does not fit in the %s until then; give a shorter --time or a later --deadline",
			spec.FormatTime(job.Spec.TimeLimitS), spec.FormatTime(uint32(min(max(job.DeadlineMS-start, 0)/1000, int64(sched.Unlimited)-1))))
	}
	return nil
}
