package state

// saveToPreempt saves a job that has to make room, and reports whether it
// could. Its run ends when the image is there; until then it counts as one that
// leaves.
func (s *State) saveToPreempt(victim *Job, order *PreemptOrder) bool {
	if victim.frozenToMove() {
		return false
	}
	if s.maySave(victim, SavePreemption) != nil {
		return false
	}
	kept := *order
	saving := &Saving{Purpose: SavePreemption, Order: &kept}
	next := s.saving(victim, saving)
	if order.Fills {
		saving.DeadlineMS = min(saving.DeadlineMS, max(order.GoneByMS-endS*1000, s.timeMS+1))
	}
	s.putJob(next)
	return true
}

// failedNow is why a job was not saved that has to go at this moment for that
// reason.
func (s *State) failedNow(job *Job) string {
	if job.Saved == nil || job.Saved.Failed == "" || job.Saved.FailedMS != s.timeMS {
		return ""
	}
	return ": " + job.Saved.Failed
}
