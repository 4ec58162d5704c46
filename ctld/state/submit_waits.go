package state

import (
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Kinds of dependency that are looked up where a spec is available.
const (
	afterCorr = spec.AfterCorr
	singleton = spec.Singleton
)

// takeWaits checks what a new job waits for, and fills in what is decided
// already.
func (s *State) takeWaits(c *SubmitJob, job *Job) *Refusal {
	dependencies := c.Dependencies
	who := requester{uid: c.Owner.UID, coordinator: c.Owner.User, seesAll: c.SeesAll}
	if refused := s.checkDependencies(job, &dependencies, who); refused != nil {
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
	if start := max(job.BeginMS, s.timeMS); job.LatestStartMS() < start {
		if job.Spec.TimeLimitS == sched.Unlimited {
			return refuse(Invalid, "Incorrect deadline: the job may not begin before it; give a later --deadline or an earlier --begin")
		}
		return refuse(Invalid, "Incorrect deadline: the time limit of %s does not fit in the %s until then; give a shorter --time or a later --deadline",
			spec.FormatTime(job.leastLeftS()), spec.FormatTime(uint32(min(max(job.DeadlineMS-start, 0)/1000, int64(sched.Unlimited)-1))))
	}
	return nil
}
