package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// RequeueJobs puts jobs back into the queue. Of running ones the end is
// decided first, and they wait again once nothing of the run is left; finished
// ones wait again at once. The next start has the next epoch. What depended on
// the end of a finished job is decided and stays so. A requeued job waits as if
// it were new: for nobody it waited for before, and with no age.
type RequeueJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	// Hold: they are held then, by their user (scontrol(1), requeuehold); with
	// SpecialExit in the state of that name.
	Hold        bool `cbor:"4,keyasint,omitempty"`
	SpecialExit bool `cbor:"5,keyasint,omitempty"`
	// Incomplete: those that are over, or end, are not meant.
	Incomplete bool `cbor:"6,keyasint,omitempty"`
	// Coordinator is who asks, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"7,keyasint,omitempty"`
}

func (RequeueJobs) kind() Kind { return KindRequeueJobs }

func (c RequeueJobs) level() Level {
	if c.Hold || c.SpecialExit || c.Incomplete {
		return LevelShares
	}
	return coordinatorLevel(c.Coordinator)
}

// Why a job is held after a requeue, in Slurm's words.
const (
	textRequeuedHeld    = "job requeued in held state"
	textRequeuedSpecial = "job requeued in special exit state"
)

func (c RequeueJobs) apply(s *State, result *Result) {
	held, detail := sched.NotHeld, ""
	switch {
	case c.SpecialExit:
		held, detail = sched.HeldByUser, textRequeuedSpecial
	case c.Hold:
		held, detail = sched.HeldByUser, textRequeuedHeld
	}
	s.onTargets(c.Targets, requester{c.UID, c.Privileged, c.Coordinator}, result, func(job *Job) (*Job, Code, string) {
		switch job.Phase {
		case Waiting:
			if len(job.Images()) > 0 {
				next := job.startingOver("it was requeued")
				if next.Held == sched.NotHeld {
					next.Held, next.SpecialExit = held, c.SpecialExit
				}
				return next, OK, ""
			}
			return nil, AlreadyDone, textIsPending
		case Running:
			next := *job
			next.decided(&End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Held: held, SpecialExit: c.SpecialExit, Detail: detail, StartOver: len(job.Images()) > 0})
			return &next, OK, ""
		case Ending:
			if job.End.Requeue {
				return nil, AlreadyDone, ""
			}
			return nil, WrongState, textTryLater
		default:
			if c.Incomplete {
				return nil, AlreadyDone, textAlreadyOver
			}
			if !s.hasPartition(job.Spec) {
				return nil, WrongState, "its partition does not exist any more: submit it again to another one"
			}
			return s.requeued(job, &End{Held: held, SpecialExit: c.SpecialExit, Detail: detail}), OK, ""
		}
	})
}

// requeued is a job that waits again after a run that is over, as an end
// decided it.
func (s *State) requeued(job *Job, end *End) *Job {
	next := *job
	next.Phase = Waiting
	next.Restarts++
	next.AgedMS, next.EligibleMS = 0, s.timeMS
	if next.Held == sched.NotHeld { // it may have been held while it ran
		next.Held = end.Held
	}
	next.SpecialExit = end.SpecialExit
	next.Detail = end.Detail
	if held, why := heldAfterRequeue(job); held != sched.NotHeld {
		next.Held, next.Detail = held, joinSentences(next.Detail, why)
	}
	if job.Saved != nil {
		s.keepImages(job, &next, end)
	}
	next.Run, next.End = nil, nil
	if next.Dependencies.IsZero() {
		return &next
	}
	next.Dependencies = next.Dependencies.afterStart()
	s.judgeSingleton(&next)
	return &next
}

// hasPartition says whether a partition that was asked for is still there.
func (s *State) hasPartition(spec *Spec) bool {
	for _, name := range spec.Partitions {
		if _, known := s.policy.Partition(name); known {
			return true
		}
	}
	return false
}
