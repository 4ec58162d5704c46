package state

import "github.com/gleaner-hpc/gleaner/ctld/state/bounds"

// AllocRef names the allocation of one run on one node.
type AllocRef struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
	Node  string `cbor:"3,keyasint"`
}

// AllocsReady records that the containers of allocations are up. A gang's script is
// started once all its allocations are (WantedAlloc.ReleaseBatch), and an allocation that was
// ready once and is missing later has been lost. With the last allocation of the
// successor of a job that moves, that is the job's run. Stale ones are ignored.
type AllocsReady struct {
	Allocs []AllocRef `cbor:"1,keyasint"`
}

func (AllocsReady) kind() Kind { return KindAllocsReady }

func (c AllocsReady) apply(s *State, result *Result) {
	if len(c.Allocs) > bounds.MaxReports {
		result.Refused = refuse(Exhausted, "%d allocations in one entry are too many: at most %d", len(c.Allocs), bounds.MaxReports)
		return
	}
	for _, ref := range c.Allocs {
		s.allocReady(ref)
	}
}

func (s *State) allocReady(ref AllocRef) {
	if job, known := s.besideAlloc(ref); known {
		s.besideReady(job, ref)
		return
	}
	job, alloc := s.presentAlloc(ref)
	if alloc == nil || alloc.Ready {
		return
	}
	next, alloc := job.withAlloc(ref.Node)
	alloc.Ready = true
	if next.Phase == Running && next.everyReady() {
		next.forgive()
		if next.Saved != nil { // it continues, or is about to
			next.goesOn()
		}
	}
	s.putJob(next)
	s.launched(ref.Node)
}

// LiveAlloc finds an allocation that is not released, of the present run or of
// another one that the job has; that job then has the allocation as its only
// one. It is nil when there is none, because the message about it is late or
// about another run.
func (t *tables) LiveAlloc(ref AllocRef) (*Job, *Alloc) {
	if job, known := t.besideAlloc(ref); known {
		other := job.as(job.Run.beside(ref.Epoch))
		return other, other.Alloc(ref.Node)
	}
	return t.presentAlloc(ref)
}

// besideAlloc finds a job by an allocation, not released, of a run other than
// its present one.
func (t *tables) besideAlloc(ref AllocRef) (*Job, bool) {
	job, known := t.Job(ref.Job)
	if !known || !job.HoldsNodes() {
		return nil, false
	}
	b := job.Run.beside(ref.Epoch)
	if b == nil {
		return nil, false
	}
	alloc := job.as(b).Alloc(ref.Node)
	return job, alloc != nil && !alloc.Released
}

// presentAlloc is LiveAlloc of the present run.
func (t *tables) presentAlloc(ref AllocRef) (*Job, *Alloc) {
	job, known := t.Job(ref.Job)
	if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {
		return nil, nil
	}
	alloc := job.Alloc(ref.Node)
	if alloc == nil || alloc.Released {
		return nil, nil
	}
	return job, alloc
}

// withAlloc is a copy of a job with a copy of its allocations, one of which may then
// be changed.
func (j *Job) withAlloc(node string) (*Job, *Alloc) {
	next := *j
	run := *j.Run
	run.Allocs = append([]Alloc(nil), j.Run.Allocs...)
	next.Run = &run
	return &next, next.Alloc(node)
}
