package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// A job that saves itself (--checkpoint=app) says with its script's exit status
// that its work is saved and that it wants to run again. It is requeued at
// once, not held and not counted as failed. One that says so without having
// run for a while waits longer each time, so that a script that can do nothing
// else does not keep the cluster busy.
const (
	savedRunMS     = 60_000 // from so long a run on it begins again at once
	savedDelayS    = 30     // after the first that was shorter, then twice as long each time
	maxSavedDelayS = 3600
)

// savedExit is the end of a job, or its requeue if its script said so. A job
// that may not be requeued is not, and is told why.
func savedExit(job *Job, report *PartReport, end End) End {
	if job.Spec.Checkpoint.Mode != words.CheckpointApp || report.Cause != pb.EndCause_END_CAUSE_EXITED ||
		report.Node != job.Run.BatchHost() || report.ExitSignal != 0 || report.ExitCode != words.SavedExit {
		return end
	}
	if !job.Spec.Requeue {
		end.Detail = joinSentences(end.Detail, fmt.Sprintf("its script exited with %d, which asks for another run, and it was submitted with --no-requeue", words.SavedExit))
		return end
	}
	return End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Saved: true,
		Detail: fmt.Sprintf("saved its work and asked to run again (exit status %d)", words.SavedExit)}
}

// runsAgain fills in when a job that saved itself may begin again, its last run
// having begun at a time. It was put back into the queue.
func (s *State) runsAgain(next *Job, startMS int64) {
	if s.timeMS-startMS >= savedRunMS {
		next.SavedEarly = 0
		return
	}
	next.SavedEarly++
	delayS := int64(maxSavedDelayS)
	if next.SavedEarly < 8 { // 30 s << 7 is more than an hour
		delayS = min(delayS, savedDelayS<<(next.SavedEarly-1))
	}
	next.BeginMS = max(next.BeginMS, s.timeMS+delayS*1000)
	next.Detail += fmt.Sprintf("; it ran for less than a minute (%d in a row), so it waits %s", next.SavedEarly, words.FormatTime(uint32(delayS)))
	if from, is := next.eligible(); is {
		next.EligibleMS = max(s.timeMS, from)
	}
}
