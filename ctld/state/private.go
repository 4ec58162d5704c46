package state

import "slices"

// sees reports whether a job exists for the caller: where the policy hides
// jobs, others' are like jobs that were never submitted.
func (s *State) sees(who requester, job *Job) bool {
	return who.privileged || who.seesAll || !s.policy.Hides("jobs") || job.Owner().UID == who.uid || s.Coordinates(who.coordinator, job)
}

// seen leaves the numbers that the caller may know of.
func (s *State) seen(who requester, ids []uint32) []uint32 {
	if who.privileged || who.seesAll || !s.policy.Hides("jobs") {
		return ids
	}
	return slices.DeleteFunc(ids, func(id uint32) bool {
		job, known := s.Job(id)
		return known && !s.sees(who, job)
	})
}
