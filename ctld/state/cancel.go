package state

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// CancelJobs ends jobs. Waiting ones are over at once; for running ones the end
// is decided, and their nodes are asked to end them (WantedAllocs). The answer
// for a job that is over, or ending for good, is AlreadyDone. It may be applied
// twice without harm.
type CancelJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"` // who cancels
	Privileged bool     `cbor:"3,keyasint,omitempty"` // may cancel other users' jobs
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"4,keyasint,omitempty"`
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"5,keyasint,omitempty"`
}

func (CancelJobs) kind() Kind { return KindCancelJobs }

func (c CancelJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}, result, func(job *Job) (*Job, Code, string) {
		next := *job
		end := End{State: pb.JobState_JOB_STATE_CANCELLED, Cancelled: true, CancelledBy: c.UID}
		switch {
		case job.Phase == Waiting:
			end.EndMS = s.timeMS
			next.Phase = Finished
			next.Saved = job.Saved.over()
		case job.Phase == Running:
			next.decided(&end)
		case job.copies():
			end.PeakMemoryBytes, end.CPUNS = job.End.PeakMemoryBytes, job.End.CPUNS
			next.stopCopies()
		case job.Phase == Ending && job.End.Requeue:
			// What was reported so far stays; only what follows differs.
			end.ExitCode, end.ExitSignal = job.End.ExitCode, job.End.ExitSignal
			end.PeakMemoryBytes, end.CPUNS = job.End.PeakMemoryBytes, job.End.CPUNS
		default:
			return nil, AlreadyDone, textAlreadyOver
		}
		next.End = &end
		return &next, OK, ""
	})
}
