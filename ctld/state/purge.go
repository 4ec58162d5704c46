package state

import "github.com/gleaner-hpc/gleaner/ctld/state/bounds"

// PurgeJobs forgets jobs that ended before BeforeMS, never one younger than
// the policy's MinJobAge, at most MaxPurge of them, oldest first.
type PurgeJobs struct {
	BeforeMS int64 `cbor:"1,keyasint"` // Unix milliseconds
}

func (PurgeJobs) kind() Kind { return KindPurgeJobs }

func (c PurgeJobs) apply(s *State, _ *Result) {
	before := min(c.BeforeMS, s.timeMS-int64(s.policy.MinJobAgeS)*1000)
	for _, id := range s.FinishedBefore(before, bounds.MaxPurge) {
		job, _ := s.Job(id)
		s.dropJob(job)
	}
}
