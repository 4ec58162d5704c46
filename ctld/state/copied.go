package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// A run that copies files has a script on each of its nodes, and is over when all of them
// are. When the first has ended, the end of the run is decided, as of any: it has
// completed. The others copy on all the same, and may decide it otherwise.
//
// Files that come are needed on all nodes, so the first failure ends the run. Results are
// of use without those of other nodes: each goes, and what did not go is told in the end.

// copies reports whether nodes of a run that is ending still copy.
func (j *Job) copies() bool { return j.Phase == Ending && j.Staged != nil && j.Staged.Copies }

// copied is how a run that copies files ends, as far as it is known after the report of one
// of its nodes. It changes the job's stages.
func (j *Job) copied(report *AllocReport) End {
	end := End{State: pb.JobState_JOB_STATE_COMPLETED}
	going := j.End == nil || j.Staged.Copies
	if j.End != nil {
		end = *j.End
	}
	one := decideCopy(j, report)
	staged := *j.Staged
	if j.Staged.Stage == StageOut {
		staged.sent(j, report, &one)
	}
	switch {
	case !going:
	case one.State == pb.JobState_JOB_STATE_COMPLETED:
		staged.Copies = true
	case j.Staged.Stage == StageIn:
		one.PeakMemoryBytes, one.CPUNS = end.PeakMemoryBytes, end.CPUNS
		end, staged.Copies = one, false
	default:
		if one.Requeue && !end.Requeue {
			one.PeakMemoryBytes, one.CPUNS = end.PeakMemoryBytes, end.CPUNS
			end = one
		}
		staged.Copies = true
	}
	j.Staged = &staged
	return end
}

// stopCopies has those nodes end that still copy.
func (j *Job) stopCopies() {
	staged := *j.Staged
	staged.Copies = false
	j.Staged = &staged
}

// decideCopy is decideEnd of a node that copies files.
func decideCopy(job *Job, report *AllocReport) End {
	var end End
	switch report.Cause {
	case pb.EndCause_END_CAUSE_EXITED:
		end = End{State: pb.JobState_JOB_STATE_COMPLETED}
		if report.ExitCode != 0 || report.ExitSignal != 0 {
			end = End{State: pb.JobState_JOB_STATE_FAILED, Reason: ReasonNonZeroExitCode}
		}
		end.Detail = report.Detail
	case pb.EndCause_END_CAUSE_CANCELLED:
		if job.copies() { // it was told to end for its node's sake: the job is not cancelled
			return nodeFailure(job, ReasonNodeDown, withColon("the copying of files was ended", report.Node, report.Detail))
		}
		end = decideEnd(job, report)
	default:
		end = decideEnd(job, report)
	}
	if job.Spec.MinNodes > 1 && !end.Requeue && end.State != pb.JobState_JOB_STATE_COMPLETED {
		end.Detail = "node " + report.Node + ": " + whyNotCopied(&end)
	}
	return end
}

// sent notes that a node's results are away, or will not be.
func (s *Staged) sent(job *Job, report *AllocReport, one *End) {
	if one.Requeue || one.Cancelled || report.Cause == pb.EndCause_END_CAUSE_CANCELLED {
		return // they are sent again, or nobody wants them
	}
	at := slices.Index(s.Nodes, report.Node)
	if at < 0 {
		return
	}
	s.Nodes = slices.Delete(slices.Clone(s.Nodes), at, at+1)
	if one.State != pb.JobState_JOB_STATE_COMPLETED {
		s.Failed = bounds.Clip(joinSentences(s.Failed, whyNotCopied(one)), bounds.MaxTextBytes)
	}
}

// whyNotCopied is why files were not copied.
func whyNotCopied(end *End) string {
	if end.Detail != "" {
		return end.Detail
	}
	return "it ended as " + spec.StateName(end.State)
}
