package state

import "github.com/gleaner-hpc/gleaner/sched"

// HoldJobs keeps waiting jobs from starting. A hold that an administrator,
// operator or coordinator puts on another user's job is an administrator's
// (JobHeldAdmin), which its user cannot release, unless it is meant as the
// user's (scontrol(1), uhold); any other is a user's (JobHeldUser). A running
// job continues, and is held once it waits again (scontrol(1), hold).
type HoldJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	AsUser     bool     `cbor:"4,keyasint,omitempty"`
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"5,keyasint,omitempty"`
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"6,keyasint,omitempty"`
}

func (HoldJobs) kind() Kind { return KindHoldJobs }

func (c HoldJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}, result, func(job *Job) (*Job, Code, string) {
		held := heldBy(job, requester{uid: c.UID, privileged: c.Privileged && !c.AsUser})
		switch {
		case job.Phase == Finished:
			return nil, WrongState, textNotPending
		case job.Held == held || job.Held == sched.HeldByAdmin:
			return nil, AlreadyDone, ""
		}
		next := *job
		next.Held = held
		return &next, OK, ""
	})
}

// heldBy is the kind of hold that a requester puts on a job.
func heldBy(job *Job, who requester) sched.Hold {
	if who.privileged && job.Owner().UID != who.uid {
		return sched.HeldByAdmin
	}
	return sched.HeldByUser
}
