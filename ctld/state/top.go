package state

import "github.com/gleaner-hpc/gleaner/ctld/state/bounds"

// TopJobs exchanges the nice values of waiting jobs, so that some go before others of their
// user. The api makes the plan, since priorities change with time; a job that is not as it
// was then refuses all of it.
type TopJobs struct {
	Changes    []NiceChange `cbor:"1,keyasint"`
	UID        uint32       `cbor:"2,keyasint,omitempty"`
	Privileged bool         `cbor:"3,keyasint,omitempty"`
}

// NiceChange is that of one record.
type NiceChange struct {
	Job  uint32 `cbor:"1,keyasint"`
	From int32  `cbor:"2,keyasint,omitempty"`
	To   int32  `cbor:"3,keyasint,omitempty"`
}

func (TopJobs) kind() Kind { return KindTopJobs }

func (c TopJobs) apply(s *State, result *Result) {
	if len(c.Changes) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d jobs would be moved, and at most %d can be: name fewer", len(c.Changes), bounds.MaxTargets)
		return
	}
	named := make(map[uint32]bool, len(c.Changes))
	for _, change := range c.Changes {
		job, known := s.Job(change.Job)
		switch {
		case !known || job.Phase != Waiting || job.Spec.Nice != change.From || named[change.Job]:
			result.Refused = refuse(WrongState, "%s", textTryLater)
			return
		case !c.Privileged && job.Owner().UID != c.UID:
			result.Refused = refuse(Denied, "%s", textNotYours)
			return
		}
		named[change.Job] = true
	}
	for _, change := range c.Changes {
		job, _ := s.Job(change.Job)
		next, spec := *job, *job.Spec
		spec.Nice = change.To
		interned, err := s.internSpec(&spec, job.Owner())
		if err != nil { // it was a spec before
			result.Jobs = append(result.Jobs, jobResult(job, Invalid, err.Error()))
			continue
		}
		next.Spec = interned
		s.putJob(&next)
		result.Jobs = append(result.Jobs, jobResult(&next, OK, ""))
	}
}
