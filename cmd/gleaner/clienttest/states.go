package clienttest

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

const (
	IsPending   = pb.JobState_JOB_STATE_PENDING
	IsRunning   = pb.JobState_JOB_STATE_RUNNING
	IsCompleted = pb.JobState_JOB_STATE_COMPLETED
	IsFailed    = pb.JobState_JOB_STATE_FAILED
	IsCancelled = pb.JobState_JOB_STATE_CANCELLED
)

// GPUs is one request for GPUs.
func GPUs(scope pb.GpuScope, model string, count uint32) []*pb.GpuRequest {
	return []*pb.GpuRequest{{Scope: scope, Model: model, Count: count}}
}
