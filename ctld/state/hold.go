package state

import "github.com/gleaner-hpc/gleaner/sched"

// HoldJobs keeps waiting jobs from starting. A hold by somebody privileged on
// another's job is an administrator's (JobHeldAdmin), which its user cannot
// release; any other is a user's (JobHeldUser).
type HoldJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
}

func (HoldJobs) kind() Kind { return KindHoldJobs }

func (c HoldJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{c.UID, c.Privileged}, result, func(job *Job) (*Job, Code, string) {
		held := sched.HeldByUser
		if c.Privileged && job.Owner().UID != c.UID {
			held = sched.HeldByAdmin
		}
		switch {
		case job.Phase != Waiting:
			return nil, WrongState, textNotPending
		case job.Held == held || job.Held == sched.HeldByAdmin:
			return nil, AlreadyDone, ""
		}
		next := *job
		next.Held = held
		return &next, OK, ""
	})
}
