package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// checkExitCodes refuses numbers that are no exit statuses, and puts the others
// into normal form.
func checkExitCodes(key string, codes []TaskRange) ([]TaskRange, error) {
	if len(codes) == 0 {
		return nil, nil
	}
	normal, err := spec.CheckExitCodes(toRanges(codes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return fromRanges(normal), nil
}

func formatExitCodes(codes []TaskRange) string { return spec.FormatArray(toRanges(codes), 0) }

// RequeueExits are the exit statuses of both lists, as slurm.conf(5) has them.
func (p *Policy) RequeueExits() (again, held string) {
	return formatExitCodes(p.RequeueExit), formatExitCodes(p.RequeueExitHold)
}

// requeueExit is the end of a job, or its requeue if its script exited with a
// status that the policy names for that. A job that may not be requeued is not
// requeued.
func (p *Policy) requeueExit(job *Job, report *AllocReport, end End) End {
	if report.Cause != pb.EndCause_END_CAUSE_EXITED || report.Node != job.Run.BatchHost() || report.ExitSignal != 0 || !job.Spec.Requeue {
		return end
	}
	has := func(codes []TaskRange) bool {
		return slices.ContainsFunc(codes, func(r TaskRange) bool {
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
