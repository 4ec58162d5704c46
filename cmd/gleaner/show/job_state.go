package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Ended reports whether a job is over.
func Ended(job *pb.Job) bool {
	switch job.GetState() {
	case pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED, pb.JobState_JOB_STATE_STAGE_OUT:
		return false
	}
	return true
}

// Finished reports whether a job is over and its nodes have cleaned up, so that
// its output is complete.
func Finished(job *pb.Job) bool {
	switch job.GetState() {
	case pb.JobState_JOB_STATE_UNSPECIFIED, pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED, pb.JobState_JOB_STATE_STAGE_OUT:
		return false
	}
	return !job.GetCompleting()
}

// Pending reports whether a job waits.
func Pending(job *pb.Job) bool { return job.State == pb.JobState_JOB_STATE_PENDING }

// running reports whether the job's clock is ticking.
func running(job *pb.Job) bool {
	return job.State == pb.JobState_JOB_STATE_RUNNING || job.State == pb.JobState_JOB_STATE_SUSPENDED
}

// StateName is the state in full, with completing and configuring in the
// place of the base state, as squeue shows it.
func StateName(job *pb.Job) string {
	switch {
	case job.Completing:
		return spec.Completing
	case job.Configuring:
		return spec.Configuring
	case job.SpecialExit:
		return spec.SpecialExit
	}
	return spec.StateName(job.State)
}

func stateCode(job *pb.Job) string {
	switch {
	case job.Completing:
		return spec.CompletingCode
	case job.Configuring:
		return spec.ConfiguringCode
	case job.SpecialExit:
		return spec.SpecialExitCode
	}
	return spec.StateCode(job.State)
}
