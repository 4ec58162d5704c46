package clienttest

import (
	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ManyJobs streams n waiting jobs, 500 a message, falling in priority; after
// message number hold it waits for a word.
func ManyJobs(n, hold int, word <-chan struct{}) func(grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
		for sent := 0; sent < n; {
			answer := &pb.ListJobsResponse{}
			for ; sent < n && len(answer.Jobs) < 500; sent++ {
				answer.Jobs = append(answer.Jobs, &pb.Job{
					Id: &pb.JobId{Job: uint32(sent + 1)}, Owner: Ada, State: pb.JobState_JOB_STATE_PENDING, Reason: "Priority",
					Priority: uint64(sent + 1), Partition: "main", Cpus: 1, Nodes: 1, TimeLimitS: 60, SubmitMs: 1, Spec: &pb.JobSpec{Name: "j"},
				})
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
			if word != nil && sent/500 == hold {
				select {
				case <-word:
				case <-stream.Context().Done():
				}
			}
		}
		return nil
	}
}
