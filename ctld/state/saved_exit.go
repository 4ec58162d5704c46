package state

import (
	"fmt"
	"math"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// A job that saves itself (--checkpoint=app) says with its script's exit status
// that its work is saved and that it wants to run again. It is requeued at
// once, neither held nor counted as failed. A job that does so after a short
// run waits longer each time, so that a script that can do nothing else does
// not keep the cluster busy.
const (
	savedRunMS     = 60_000 // after a run of this length it starts again at once
	savedDelayS    = 30     // after the first shorter run, then twice as long each time
	maxSavedDelayS = 3600
)

// savedExit is the end of a job, or its requeue if its script asked for that. A
// job that may not be requeued is not requeued, and is told why.
func savedExit(job *Job, report *AllocReport, end End) End {
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

// runsAgain fills in when a job that saved itself may start again, given the
// start of its last run. The job is back in the queue.
func (s *State) runsAgain(next *Job, startMS int64) {
	if s.timeMS-startMS >= savedRunMS {
		next.SavedEarly = 0
		return
	}
	next.SavedEarly = min(next.SavedEarly, math.MaxUint8-1) + 1
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
