package clienttest

import (
	"cmp"
	"slices"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ListRuns has a run of each job.
func (s *StubController) ListRuns(request *pb.ListRunsRequest, stream grpc.ServerStreamingServer[pb.ListRunsResponse]) error {
	for _, job := range s.Jobs {
		run := &pb.PastRun{Job: job, Live: job.GetEndMs() == 0}
		if until := cmp.Or(job.GetEndMs(), StubNow.UnixMilli()); job.GetStartMs() != 0 {
			run.RanMs = until - job.GetStartMs()
		}
		filter := request.GetFilter()
		if ids := filter.GetIds(); len(ids) > 0 && !slices.ContainsFunc(ids, func(id *pb.JobId) bool { return stubIs(job, id) }) {
			continue
		}
		if users := filter.GetUsers(); len(users) > 0 && !slices.Contains(users, job.GetOwner().GetUser()) {
			continue
		}
		if err := stream.Send(&pb.ListRunsResponse{Runs: []*pb.PastRun{run}}); err != nil {
			return err
		}
	}
	return nil
}
