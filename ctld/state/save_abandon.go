package state

// AbandonSaves gives up saves that are under way: their node has not said in
// time how they ended. The job runs on, unless it has to make room; its node is
// told, if it can be reached.
type AbandonSaves struct {
	Saves  []SaveRef `cbor:"1,keyasint"`
	Reason string    `cbor:"2,keyasint,omitempty"`
}

// SaveRef names a save.
type SaveRef struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Number uint32 `cbor:"3,keyasint"`
}

func (AbandonSaves) kind() Kind   { return KindAbandonSaves }
func (AbandonSaves) level() Level { return LevelFrozen }

func (c AbandonSaves) apply(s *State, result *Result) {
	if len(c.Saves) > MaxTargets {
		result.Refused = refuse(Exhausted, "%d saves in one entry are too many: at most %d", len(c.Saves), MaxTargets)
		return
	}
	for _, ref := range c.Saves {
		job, known := s.Job(ref.Job)
		if !known || job.Epoch != ref.Epoch || job.Saving() == nil || job.Saving().Number != ref.Number {
			continue
		}
		s.saveFailed(job, c.Reason, true)
	}
}

// LateSaves are saves of which the node should have said by now how they ended,
// nowMS being the leader's clock.
func (v *View) LateSaves(nowMS int64) []SaveRef {
	var late []SaveRef
	for job := range v.LiveJobs() {
		if saving := job.Saving(); saving != nil && saving.DeadlineMS <= nowMS && len(late) < MaxTargets {
			late = append(late, SaveRef{job.ID, job.Epoch, saving.Number})
		}
	}
	return late
}
