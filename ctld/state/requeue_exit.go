package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// requeueExit is the end of a job, or its requeue if its script exited with a
// status that the policy names for that. A job that may not be requeued is not
// requeued.
func requeueExit(p *policy.Policy, job *Job, report *AllocReport, end End) End {
	if report.Cause != pb.EndCause_END_CAUSE_EXITED || report.Node != job.Run.BatchHost() || report.ExitSignal != 0 || !job.Spec.Requeue {
		return end
	}
	has := func(codes []ranges.Range) bool {
		return slices.ContainsFunc(codes, func(r ranges.Range) bool {
			return r.First <= report.ExitCode && report.ExitCode <= r.Last && (report.ExitCode-r.First)%r.Step == 0
		})
	}
	again := End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Reason: ReasonNonZeroExitCode}
	switch {
	case has(p.RequeueExitHold):
		again.Held, again.SpecialExit = sched.HeldByUser, true
		again.Detail = fmt.Sprintf("requeued and held, because its script exited with %d (requeue_exit_hold)", report.ExitCode)
	case has(p.RequeueExit):
		again.Detail = fmt.Sprintf("requeued, because its script exited with %d (requeue_exit)", report.ExitCode)
	default:
		return end
	}
	return again
}
