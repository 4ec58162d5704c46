package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// AllocsEnded records what nodes reported: nothing is left of these
// allocations, and what they held is free. The first report of a job decides
// how the job ends; with the last one it is over, or waits again. Late and
// repeated reports are ignored; the node may forget any allocation once its
// report has been applied.
type AllocsEnded struct {
	Reports []AllocReport `cbor:"1,keyasint"`
}

// AllocReport is a node's report on one allocation. See AllocEnded in link.proto.
type AllocReport struct {
	Job             uint32      `cbor:"1,keyasint"`
	Epoch           uint32      `cbor:"2,keyasint"`
	Node            string      `cbor:"3,keyasint"`
	Cause           pb.EndCause `cbor:"4,keyasint,omitempty"`
	ExitCode        uint32      `cbor:"5,keyasint,omitempty"`
	ExitSignal      uint32      `cbor:"6,keyasint,omitempty"`
	Detail          string      `cbor:"7,keyasint,omitempty"`
	PeakMemoryBytes uint64      `cbor:"8,keyasint,omitempty"`
	CPUNS           uint64      `cbor:"9,keyasint,omitempty"`
	// Steps is a pb.NodeSteps; nil = it had none.
	Steps []byte `cbor:"180,keyasint,omitempty"`
	// Freed is of one that was told to end.
	Freed *Freed `cbor:"600,keyasint,omitempty"`
}

// Exit statuses that Slurm shows for ends that are not the script's own.
const (
	oomExitSignal    = 125 // "0:125"
	launchExitSignal = 53  // "0:53"
)

func (AllocsEnded) kind() Kind { return KindAllocsEnded }

func (c AllocsEnded) apply(s *State, result *Result) {
	if len(c.Reports) > bounds.MaxReports {
		result.Refused = refuse(Exhausted, "%d reports in one entry are too many: at most %d", len(c.Reports), bounds.MaxReports)
		return
	}
	for i := range c.Reports {
		s.allocEnded(&c.Reports[i])
		s.strayEnded(AllocRef{c.Reports[i].Job, c.Reports[i].Epoch, c.Reports[i].Node})
		s.strangerEnded(AllocRef{c.Reports[i].Job, c.Reports[i].Epoch, c.Reports[i].Node})
	}
}

func (s *State) allocEnded(report *AllocReport) {
	ref := AllocRef{report.Job, report.Epoch, report.Node}
	if job, known := s.besideAlloc(ref); known {
		s.besideEnded(job, report)
		return
	}
	job, alloc := s.presentAlloc(ref)
	if alloc == nil {
		return
	}
	job, end, stood := s.lostFrozen(job, report)
	next, alloc := job.withAlloc(report.Node)
	alloc.Released = true
	next.keepSteps(alloc, report.Steps)
	if report.Cause == pb.EndCause_END_CAUSE_EXITED && (report.Node == job.Run.BatchHost() || job.stages()) {
		alloc.Ready = true // a short script may be over before its start is told
	}
	ready := alloc.Ready
	if !ready {
		next.avoid(report, s.timeMS)
	}
	if !stood && job.stages() {
		end = next.copied(report) // its exit status is none of the user's script
	} else if job.End != nil {
		end = *job.End
	} else if !stood {
		end = savedExit(job, report, requeueExit(s.policy, job, report, decideEnd(job, report)))
	}
	addReport(&end, job, report)
	next.decided(&end)
	if next.allReleased() {
		next = s.close(next)
	}
	s.putJob(next)
	s.noteOver(job, report)
	s.noteLoss(report)
	if !ready {
		s.noteFault(report, job.Owner().UID)
	}
}

// decideEnd is how a job ends whose allocation ended before anything else
// decided it. Only the script on the batch host ends a job by itself; an
// allocation elsewhere that ends unasked has failed.
func decideEnd(job *Job, report *AllocReport) End {
	batch := report.Node == job.Run.BatchHost()
	detail := report.Detail
	if job.neverWentOn(report) {
		return restoreFailed(job, report)
	}
	switch report.Cause {
	case pb.EndCause_END_CAUSE_EXITED:
		if !batch {
			return nodeFailure(job, ReasonNodeDown, fmt.Sprintf("the job's allocation on %s ended before its script", report.Node))
		}
		if report.ExitCode != 0 || report.ExitSignal != 0 {
			return End{State: pb.JobState_JOB_STATE_FAILED, Reason: ReasonNonZeroExitCode, Detail: detail}
		}
		return End{State: pb.JobState_JOB_STATE_COMPLETED, Detail: detail}
	case pb.EndCause_END_CAUSE_TIME_LIMIT:
		if job.endsByDeadline() {
			return End{State: pb.JobState_JOB_STATE_DEADLINE, Reason: ReasonDeadline, Detail: joinSentences("ended at its deadline", detail)}
		}
		return End{State: pb.JobState_JOB_STATE_TIMEOUT, Reason: ReasonTimeLimit, Detail: detail}
	case pb.EndCause_END_CAUSE_OUT_OF_MEMORY:
		return End{State: pb.JobState_JOB_STATE_OUT_OF_MEMORY, Reason: ReasonOutOfMemory, Detail: detail, ExitSignal: oomExitSignal}
	case pb.EndCause_END_CAUSE_CANCELLED:
		return End{State: pb.JobState_JOB_STATE_CANCELLED, Detail: detail}
	case pb.EndCause_END_CAUSE_BAD_REQUEST:
		end := End{State: pb.JobState_JOB_STATE_FAILED, Reason: ReasonJobLaunchFailure, Detail: detail}
		if report.ExitCode == 0 && report.ExitSignal == 0 {
			end.ExitSignal = launchExitSignal
		}
		return end
	case pb.EndCause_END_CAUSE_NODE_FAULT:
		return launchFailed(job, report)
	case pb.EndCause_END_CAUSE_OTHER_ACCOUNT, pb.EndCause_END_CAUSE_NOT_ADMITTED:
		// The node is not at fault for other users and jobs. This one goes elsewhere.
		return End{
			State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true, Elsewhere: true,
			Reason: ReasonJobLaunchFailure, Detail: withColon("the launch failed", report.Node, detail),
		}
	case pb.EndCause_END_CAUSE_STAGED_GONE:
		return stagedGone(job, report)
	case pb.EndCause_END_CAUSE_NODE_FULL:
		// The node refuses new jobs by itself, so the job may go elsewhere.
		return End{
			State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true,
			Reason: ReasonJobLaunchFailure, Detail: withColon("the launch failed", report.Node, detail),
		}
	case pb.EndCause_END_CAUSE_LEASE_ENDED:
		detail = withColon("the job was stopped", report.Node, detail)
		if !job.anyReady() {
			return End{State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true, Reason: ReasonNodeDown, Detail: detail + "; requeued, because it had not started"}
		}
		return nodeFailure(job, ReasonNodeDown, detail)
	case pb.EndCause_END_CAUSE_RECLAIMED:
		return reclaimed(job, report)
	case pb.EndCause_END_CAUSE_RESTORE_FAILED:
		return nodeFailure(job, ReasonNodeDown, withColon("the job was not restored, though it ran", report.Node, detail))
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED:
		return nodeFailure(job, ReasonSupervisorDied, withColon("the job's supervisor died", report.Node, detail))
	default: // UNKNOWN_ALLOC, and what a later node may say
		detail = withColon("the job's allocation was lost", report.Node, detail)
		// A node that is gone may have started the job and not reported it yet:
		// a job that must not run again is over.
		if !job.anyReady() && job.Spec.Requeue {
			return End{State: pb.JobState_JOB_STATE_NODE_FAIL, Requeue: true, Reason: ReasonNodeDown, Detail: detail + "; requeued, because it had not started"}
		}
		return nodeFailure(job, ReasonNodeDown, detail)
	}
}

// anyReady reports whether any container of the run has been up.
func (j *Job) anyReady() bool {
	for i := range j.Run.Allocs {
		if j.Run.Allocs[i].Ready {
			return true
		}
	}
	return false
}

func withColon(what, node, detail string) string {
	text := what + " on " + node
	if detail != "" {
		text += ": " + detail
	}
	return text
}

// nodeFailure ends a job for a reason that is not its fault: it is requeued if
// it allows that.
func nodeFailure(job *Job, reason Reason, detail string) End {
	end := End{State: pb.JobState_JOB_STATE_NODE_FAIL, Reason: reason}
	if job.Spec.Requeue || job.stages() { // the script itself is not run twice
		end.Requeue = true
		end.Detail = detail + "; requeued" + job.goesOnText()
	} else if job.goesOnAfterLoss() {
		end.Requeue = true
		end.Detail = detail + job.goesOnText()
	} else {
		end.Detail = detail + "; not requeued, because it was submitted without --requeue"
	}
	return end
}

// addReport adds up usage, and takes the exit status from the batch host.
func addReport(end *End, job *Job, report *AllocReport) {
	end.PeakMemoryBytes = max(end.PeakMemoryBytes, report.PeakMemoryBytes)
	if end.CPUNS+report.CPUNS >= end.CPUNS { // a liar's overflow is not added
		end.CPUNS += report.CPUNS
	}
	if report.Node != job.Run.BatchHost() || end.State == pb.JobState_JOB_STATE_OUT_OF_MEMORY {
		return
	}
	if report.ExitCode != 0 || report.ExitSignal != 0 {
		end.ExitCode, end.ExitSignal = report.ExitCode, report.ExitSignal
	}
}

func (j *Job) allReleased() bool {
	for i := range j.Run.Allocs {
		if !j.Run.Allocs[i].Released {
			return false
		}
	}
	return len(j.Run.Beside) == 0
}

// close is a job after its last allocation is released.
func (s *State) close(job *Job) *Job {
	s.chargeUsage(job)
	s.noteEndedRun(job)
	if next, again := s.nextStage(job); again {
		return next
	} else if next != nil {
		job = next
	}
	if job.End.Requeue {
		s.noteHistory(job) // one that is over for good is noted by putJob
	}
	if !job.End.Requeue {
		job.Phase = Finished
		if job.End.EndMS == 0 { // it had run before its files were copied
			job.End.EndMS = s.timeMS
		}
		job.Saved = job.Saved.over()
		return job
	}
	next := s.requeued(job, job.End)
	if job.End.Saved {
		s.runsAgain(next, job.Run.StartMS)
	}
	if job.End.Reason != ReasonNone && !job.End.Elsewhere { // nobody asked for it
		next.Failures = min(next.Failures, maxBatchRequeue) + 1
		if next.Failures > maxBatchRequeue && next.Held == sched.NotHeld {
			next.Held = sched.HeldMaxRequeue
		}
	}
	s.holdIfNowhere(next)
	return next
}

// maxBatchRequeue is how often a job is requeued by itself before a user has to
// look at it, or it would fail forever: Slurm's default for max_batch_requeue
// (slurm.conf(5)).
const maxBatchRequeue = 5

// systemUser is shown where the controller itself set a reason.
const systemUser = "gleaner"
