package state

import "github.com/gleaner-hpc/gleaner/sched"

// ReleaseJobs lets held jobs start again. A user may not release what an
// administrator holds.
type ReleaseJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"4,keyasint,omitempty"`
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"5,keyasint,omitempty"`
}

func (ReleaseJobs) kind() Kind { return KindReleaseJobs }

func (c ReleaseJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}, result, func(job *Job) (*Job, Code, string) {
		switch {
		case job.Phase == Finished || job.Phase != Waiting && job.Held == sched.NotHeld:
			return nil, WrongState, textNotPending
		case job.Held == sched.NotHeld:
			return nil, AlreadyDone, ""
		case !mayRelease(job, requester{uid: c.UID, privileged: c.Privileged}):
			return nil, Denied, textNotYours + ": an administrator holds the job and has to release it"
		}
		next := *job
		releaseHold(&next)
		return &next, OK, ""
	})
}

func mayRelease(job *Job, who requester) bool {
	return job.Held != sched.HeldByAdmin || who.privileged
}

// releaseHold releases a job from a hold. Its priority is computed again
// (scontrol(1), Priority).
func releaseHold(job *Job) {
	job.Held = sched.NotHeld
	job.FixedPriority = 0
	job.SpecialExit = false
	job.Detail = ""
	job.Failures = 0
	job.Avoided = nil
	if job.Saved != nil && (len(job.Saved.Tries) > 0 || job.Saved.AwayNumber != 0) {
		saved := *job.Saved
		saved.forgetTries()
		job.Saved = &saved
	}
}
