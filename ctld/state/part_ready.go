package state

// PartRef names the part of one run on one node.
type PartRef struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
	Node  string `cbor:"3,keyasint"`
}

// PartsReady records that the containers of parts are up. A gang's script is
// started once all its parts are (WantedPart.ReleaseBatch), and a part that was
// ready once and is missing later has been lost. Stale ones are ignored.
type PartsReady struct {
	Parts []PartRef `cbor:"1,keyasint"`
}

func (PartsReady) kind() Kind { return KindPartsReady }

func (c PartsReady) apply(s *State, result *Result) {
	if len(c.Parts) > MaxReports {
		result.Refused = refuse(Exhausted, "%d parts in one entry are too many: at most %d", len(c.Parts), MaxReports)
		return
	}
	for _, ref := range c.Parts {
		s.partReady(ref)
	}
}

func (s *State) partReady(ref PartRef) {
	job, part := s.LivePart(ref)
	if part == nil || part.Ready {
		return
	}
	next, part := job.withPart(ref.Node)
	part.Ready = true
	s.putJob(next)
}

// LivePart finds a part that is not released, of the present run; nil when
// there is none, because the message about it is late or about another run.
func (t *tables) LivePart(ref PartRef) (*Job, *Part) {
	job, known := t.Job(ref.Job)
	if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {
		return nil, nil
	}
	part := job.Part(ref.Node)
	if part == nil || part.Released {
		return nil, nil
	}
	return job, part
}

// withPart is a copy of a job with a copy of its parts, one of which may then
// be changed.
func (j *Job) withPart(node string) (*Job, *Part) {
	next := *j
	run := *j.Run
	run.Parts = append([]Part(nil), j.Run.Parts...)
	next.Run = &run
	return &next, next.Part(node)
}
