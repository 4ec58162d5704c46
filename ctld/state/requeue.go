package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// RequeueJobs puts jobs back into the queue. Of running ones the end is
// decided first, and they wait again once nothing of the run is left; finished
// ones wait again at once. The next start has the next epoch.
type RequeueJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"`
}

func (RequeueJobs) kind() Kind { return KindRequeueJobs }

func (c RequeueJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{c.UID, c.Privileged}, result, func(job *Job) (*Job, Code, string) {
		switch job.Phase {
		case Waiting:
			return nil, AlreadyDone, textIsPending
		case Running:
			next := *job
			next.Phase = Ending
			next.End = &End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true}
			return &next, OK, ""
		case Ending:
			if job.End.Requeue {
				return nil, AlreadyDone, ""
			}
			return nil, WrongState, textTryLater
		default:
			if !s.hasPartition(job.Spec) {
				return nil, WrongState, "its partition does not exist any more: submit it again to another one"
			}
			return requeued(job, s.timeMS, sched.NotHeld, ""), OK, ""
		}
	})
}

// requeued is a job that waits again after a run that is over.
func requeued(job *Job, nowMS int64, held sched.Hold, detail string) *Job {
	next := *job
	next.Phase = Waiting
	next.Restarts++
	next.EligibleMS = nowMS
	next.Held = held
	next.Detail = detail
	next.Run, next.End = nil, nil
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
