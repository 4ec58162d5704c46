package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// RequeueJobs puts jobs back into the queue. For running ones the end is
// decided first, and they wait again once nothing of the run is left; finished
// ones wait again at once. The next start has the next epoch. Dependencies on
// the end of a finished job are decided and stay so. A requeued job waits as if
// it were new: for none of the jobs it waited for before, and with no age. A
// job submitted with --no-requeue never starts a second time, whoever asks: not
// while it runs, not once it is over, not from an image back to its start.
type RequeueJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
	// Hold: they are held afterwards, by their user (scontrol(1), requeuehold);
	// with SpecialExit in the state of that name.
	Hold        bool `cbor:"4,keyasint,omitempty"`
	SpecialExit bool `cbor:"5,keyasint,omitempty"`
	// Incomplete: jobs that are over, or end, are left alone.
	Incomplete bool `cbor:"6,keyasint,omitempty"`
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"7,keyasint,omitempty"`
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"8,keyasint,omitempty"`
}

func (RequeueJobs) kind() Kind { return KindRequeueJobs }

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
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}, result, func(job *Job) (*Job, Code, string) {
		if c.refusedOnce(job) {
			return nil, Disabled, textNeverRequeued(job)
		}
		switch job.Phase {
		case Waiting:
			if job.stagesOut() {
				return nil, WrongState, "its results are being staged out: wait until they are, or cancel it"
			}
			if job.Staged.waitsFor() != nil {
				next := *job
				next.Staged = job.Spec.firstStage()
				return &next, OK, ""
			}
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
			if job.copies() && job.stagesIn() {
				next := *job
				next.decided(&End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Held: held, SpecialExit: c.SpecialExit, Detail: detail})
				next.stopCopies()
				return &next, OK, ""
			}
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
			if refused := s.mayQueue(job.Owner().UID, int(job.TaskCount())); refused != nil {
				return nil, refused.Code, refused.Message
			}
			return s.requeued(job, &End{Held: held, SpecialExit: c.SpecialExit, Detail: detail}), OK, ""
		}
	})
}

// refusedOnce reports whether a requeue would start a job again that may run
// only once. A job that waits for its first start, or that is over while only
// others are meant, gets the answer that any job gets.
func (c RequeueJobs) refusedOnce(job *Job) bool {
	switch {
	case job.Spec.Requeue:
		return false
	case job.Phase == Waiting:
		return len(job.Images()) > 0
	default:
		return job.Phase == Running || !c.Incomplete
	}
}

// textNeverRequeued says what to do instead.
func textNeverRequeued(job *Job) string {
	if job.Phase == Finished {
		return textDisabled + ": it was submitted with --no-requeue: submit it again"
	}
	id := jobID(job)
	if job.Array != 0 {
		id.Job = job.Array
	}
	return fmt.Sprintf("%s: it was submitted with --no-requeue; gcontrol update JobId=%s Requeue=1 allows it", textDisabled, spec.FormatJobID(id))
}

// requeued is a job that waits again after a run, as the run's end says.
func (s *State) requeued(job *Job, end *End) *Job {
	next := *job
	next.Phase = Waiting
	next.Restarts++
	next.Epoch = max(job.Epoch, job.lastEpoch())
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
	next.Staged = job.stagedAgain(&next)
	next.Run, next.End = nil, nil
	if next.Dependencies.IsZero() {
		return &next
	}
	next.Dependencies = next.Dependencies.afterStart()
	s.judgeSingleton(&next)
	return &next
}

// lastEpoch is the highest epoch of the job's runs, tries of a move included; 0
// = it has none.
func (j *Job) lastEpoch() uint32 {
	if j.Run == nil {
		return 0
	}
	return j.Run.LastEpoch
}

// hasPartition reports whether a requested partition still exists.
func (s *State) hasPartition(spec *Spec) bool {
	for _, name := range spec.Partitions {
		if _, known := s.policy.Partition(name); known {
			return true
		}
	}
	return false
}
