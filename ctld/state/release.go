package state

import "github.com/gleaner-hpc/gleaner/sched"

// ReleaseJobs lets held jobs start again. A user may not release what an
// administrator holds.
type ReleaseJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	// Coordinator is who asks, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"4,keyasint,omitempty"`
}

func (ReleaseJobs) kind() Kind { return KindReleaseJobs }

func (c ReleaseJobs) level() Level { return coordinatorLevel(c.Coordinator) }

func (c ReleaseJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{c.UID, c.Privileged, c.Coordinator}, result, func(job *Job) (*Job, Code, string) {
		switch {
		case job.Phase == Finished || job.Phase != Waiting && job.Held == sched.NotHeld:
			return nil, WrongState, textNotPending
		case job.Held == sched.NotHeld:
			return nil, AlreadyDone, ""
		case !mayRelease(job, requester{uid: c.UID, privileged: c.Privileged}):
			return nil, Denied, textNotYours + ": an administrator holds the job and has to release it"
		}
		next := *job
		letGo(&next)
		return &next, OK, ""
	})
}

func mayRelease(job *Job, who requester) bool {
	return job.Held != sched.HeldByAdmin || who.privileged
}

// letGo takes a hold off a job. Its priority is computed again (scontrol(1),
// Priority).
func letGo(job *Job) {
	job.Held = sched.NotHeld
	job.FixedPriority = 0
	job.SpecialExit = false
	job.Detail = ""
	job.Failures = 0
	if job.Saved != nil && len(job.Saved.Tries) > 0 {
		saved := *job.Saved
		saved.Tries = nil
		job.Saved = &saved
	}
}
