package state

import "github.com/gleaner-hpc/gleaner/sched"

// HoldJobs keeps waiting jobs from starting. A hold by somebody privileged on
// another's job is an administrator's (JobHeldAdmin), which its user cannot
// release, unless it is meant as the user's (scontrol(1), uhold); any other is a
// user's (JobHeldUser). A job that runs goes on, and is held once it waits again
// (scontrol(1), hold).
type HoldJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	AsUser     bool     `cbor:"4,keyasint,omitempty"`
	// Coordinator is who asks, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"5,keyasint,omitempty"`
}

func (HoldJobs) kind() Kind { return KindHoldJobs }

func (c HoldJobs) level() Level {
	if c.AsUser {
		return LevelShares
	}
	return coordinatorLevel(c.Coordinator)
}

func (c HoldJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{c.UID, c.Privileged, c.Coordinator}, result, func(job *Job) (*Job, Code, string) {
		held := heldBy(job, requester{uid: c.UID, privileged: c.Privileged && !c.AsUser})
		switch {
		case job.Phase == Finished || job.Phase != Waiting && s.level < LevelShares:
			return nil, WrongState, textNotPending
		case job.Held == held || job.Held == sched.HeldByAdmin:
			return nil, AlreadyDone, ""
		}
		next := *job
		next.Held = held
		return &next, OK, ""
	})
}

// heldBy is whose hold it is that somebody puts on a job.
func heldBy(job *Job, who requester) sched.Hold {
	if who.privileged && job.Owner().UID != who.uid {
		return sched.HeldByAdmin
	}
	return sched.HeldByUser
}
