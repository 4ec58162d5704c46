package state

import "github.com/gleaner-hpc/gleaner/sched"

// ReleaseJobs lets held jobs start again. A user may not release what an
// administrator holds.
type ReleaseJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
}

func (ReleaseJobs) kind() Kind { return KindReleaseJobs }

func (c ReleaseJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{c.UID, c.Privileged}, result, func(job *Job) (*Job, Code, string) {
		switch {
		case job.Phase != Waiting:
			return nil, WrongState, textNotPending
		case job.Held == sched.NotHeld:
			return nil, AlreadyDone, ""
		case job.Held == sched.HeldByAdmin && !c.Privileged:
			return nil, Denied, textNotYours + ": an administrator holds the job and has to release it"
		}
		next := *job
		next.Held = sched.NotHeld
		next.EligibleMS = s.timeMS
		next.Detail = ""
		next.Failures = 0
		return &next, OK, ""
	})
}
