package clienttest

import (
	"cmp"
	"slices"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// ListRuns has a run of each job.
func (s *StubController) ListRuns(request *pb.ListRunsRequest, stream grpc.ServerStreamingServer[pb.ListRunsResponse]) error {
	for _, job := range s.Jobs {
		run := &pb.PastRun{Job: job, Live: job.GetEndMs() == 0}
		if until := cmp.Or(job.GetEndMs(), StubNow.UnixMilli()); job.GetStartMs() != 0 {
			run.RanMs = until - job.GetStartMs()
		}
		if request.GetSteps() && job.GetId().GetJob() == 103 {
			run.Steps = stubSteps(job)
		}
		filter := request.GetFilter()
		if ids := filter.GetIds(); len(ids) > 0 && !slices.ContainsFunc(ids, func(id *pb.JobId) bool { return stubIs(job, id) }) {
			continue
		}
		if users := filter.GetUsers(); len(users) > 0 && !slices.Contains(users, job.GetOwner().GetUser()) {
			continue
		}
		if fields := request.GetFields(); len(fields) > 0 {
			if request.GetSteps() {
				fields = append(slices.Clone(fields), "steps")
			}
			run = prototest.Only(run, fields)
		}
		if err := stream.Send(&pb.ListRunsResponse{Runs: []*pb.PastRun{run}, Cluster: "lab"}); err != nil {
			return err
		}
	}
	return nil
}

// ListNodeEvents has three of n1, one that lasts.
func (s *StubController) ListNodeEvents(request *pb.ListNodeEventsRequest, stream grpc.ServerStreamingServer[pb.ListNodeEventsResponse]) error {
	now := StubNow.UnixMilli()
	answer := &pb.ListNodeEventsResponse{}
	for _, event := range []*pb.NodeEvent{
		{Node: "n1", State: "DRAIN", Reason: "disk\x1b[31m", User: "root", StartMs: now - 90_000_000, EndMs: now - 80_000_000, Cpus: 8, Gpus: 2},
		{Node: "n1", State: "DOWN*", Reason: "Not responding", StartMs: now - 4_000_000, EndMs: now - 3_000_000, Cpus: 8, Gpus: 2},
		{Node: "n1", State: "DOWN+DRAIN", Reason: "fan", User: "adam", StartMs: now - 60_000, Cpus: 8, Gpus: 2},
	} {
		if (request.GetNodes() == "" || request.GetNodes() == event.Node) && (!request.GetLasting() || event.EndMs == 0) && (event.EndMs == 0 || event.EndMs >= request.GetSinceMs()) {
			answer.Events = append(answer.Events, event)
		}
	}
	return stream.Send(answer)
}

// stubSteps are one on two nodes that failed, and one that was there when the job ended.
func stubSteps(job *pb.Job) []*pb.NodeSteps {
	start := job.GetStartMs()
	return []*pb.NodeSteps{
		{Node: "n1", Omitted: 3, Steps: []*pb.StepPart{
			{
				Step: 3, Name: "train", Tasks: 2, Cpus: 2, Gpus: 1, StartMs: start + 1000, EndMs: start + 61_000, UserUs: 90_000_000, SystemUs: 2_000_000,
				PeakMemoryBytes: 200 << 20, PeakRank: 1, SumMemoryBytes: 300 << 20, LeastCpuUs: 40_000_000, ReadBytes: 8 << 20, WrittenBytes: 4 << 20,
				GpuSamples: 6, SumGpuPercent: 480, MostGpuPercent: 97, PeakGpuMemoryBytes: 6 << 30,
			},
			{Step: 4, Name: "tail", Tasks: 1, Cpus: 1, StartMs: start + 62_000},
			{Step: step.BatchStep, Name: "batch", Tasks: 1, StartMs: start, GpuSamples: 60, SumGpuPercent: 480, MostGpuPercent: 97, PeakGpuMemoryBytes: 6 << 30},
		}},
		{Node: "n2", Steps: []*pb.StepPart{{
			Step: 3, Name: "train", Tasks: 2, Cpus: 2, Gpus: 1, StartMs: start + 1500, EndMs: start + 62_000, ExitCode: 9, UserUs: 20_000_000, SystemUs: 500,
			PeakMemoryBytes: 100 << 20, PeakRank: 2, SumMemoryBytes: 180 << 20, LeastCpuUs: 3_000_000, LeastRank: 3,
		}}},
	}
}
