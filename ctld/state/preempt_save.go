package state

// saveToPreempt has a job saved that has to make room, and answers whether it
// is. Its run ends when it is; until then it counts as one that leaves.
func (s *State) saveToPreempt(victim *Job, order *PreemptOrder) bool {
	if s.maySave(victim, SavePreemption) != nil {
		return false
	}
	kept := *order
	s.putJob(s.saving(victim, &Saving{Purpose: SavePreemption, Order: &kept}))
	return true
}

// failedNow is why a job was not saved that has to go at this moment because of
// that.
func (s *State) failedNow(job *Job) string {
	if job.Saved == nil || job.Saved.Failed == "" || job.Saved.FailedMS != s.timeMS {
		return ""
	}
	return ": " + job.Saved.Failed
}
