package clienttest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ExplainWait knows why the jobs of the fixture wait. What would help is known of the
// array, and for another there is no time.
func (s *StubController) ExplainWait(_ context.Context, request *pb.ExplainWaitRequest) (*pb.ExplainWaitResponse, error) {
	at := slices.IndexFunc(s.Jobs, func(job *pb.Job) bool { return stubIs(job, request.GetId()) })
	if at < 0 {
		return nil, status.Error(codes.NotFound, "Invalid job id specified")
	}
	answer := &pb.ExplainWaitResponse{Job: s.Jobs[at]}
	switch {
	case s.Jobs[at].State != pb.JobState_JOB_STATE_PENDING:
	case s.Jobs[at].GetArrayJobId() != 0:
		answer.Because, answer.Asked, answer.Whole = []string{"job 102 of grace comes before it"}, true, true
		answer.Start = &pb.PlannedStart{StartMs: StubNow.Add(90 * 60e9).UnixMilli(), NodeList: "n3", Partition: "gpu", Cpus: 1}
		answer.Advice = StubAdvice()
	default:
		answer.Start, answer.Asked = &pb.PlannedStart{}, true
	}
	return answer, nil
}

// StubAdvice is a piece of each kind.
func StubAdvice() []*pb.WaitAdvice {
	now := &pb.PlannedStart{Now: true, StartMs: StubNow.UnixMilli(), NodeList: "n3", Partition: "gpu", Cpus: 1}
	gpus := func(scope pb.GpuScope, model string) *pb.GpuRequests {
		return &pb.GpuRequests{Requests: []*pb.GpuRequest{{Scope: scope, Count: 2, Model: model}}}
	}
	var advice []*pb.WaitAdvice
	for _, change := range []*pb.JobChange{
		nil, {TimeLimitS: proto.Uint32(5400)}, {BeginMs: proto.Int64(0)}, {Reservations: proto.String("")}, {NodeList: proto.String("")},
		{Constraint: proto.String("")}, {Partitions: []string{"main"}}, {MinNodes: proto.Uint32(2), MaxNodes: proto.Uint32(2)},
		{Qos: proto.String("high")}, {Account: proto.String("physics")},
		{Gpus: gpus(pb.GpuScope_GPU_SCOPE_NODE, "")}, {Gpus: gpus(pb.GpuScope_GPU_SCOPE_JOB, "a100")},
	} {
		advice = append(advice, &pb.WaitAdvice{Change: change, Start: now})
	}
	advice[len(advice)-1].Start = &pb.PlannedStart{StartMs: StubNow.Add(10 * 60e9).UnixMilli(), NodeList: "n3", Partition: "gpu"}
	return advice
}
