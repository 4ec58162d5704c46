package queue

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestListBeginsAnew: a list that broke off is asked for again while nothing
// of it has been shown, and only then.
func TestListBeginsAnew(t *testing.T) {
	stub := func(jobs int) *clienttest.StubController {
		calls := 0
		return &clienttest.StubController{List: func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
			calls++
			for number := range uint32(jobs) {
				job := &pb.Job{Id: &pb.JobId{Job: number + 1}, Spec: &pb.JobSpec{}, Owner: &pb.Identity{}, State: clienttest.IsPending}
				if err := stream.Send(&pb.ListJobsResponse{Jobs: []*pb.Job{job}, Total: uint32(jobs)}); err != nil {
					return err
				}
				if calls == 1 && number == uint32(jobs)/2 {
					return status.Error(codes.Unavailable, "this controller stops")
				}
			}
			return nil
		}}
	}
	clienttest.ServeStub(t, stub(4))
	out, stderr, exit := typed(t, t.Context(), nil, "gqueue -h -o %i")
	if out != "1\n2\n3\n4\n" || exit != 0 || stderr != "" {
		t.Errorf("%q, %q, status %d", out, stderr, exit)
	}
	clienttest.ServeStub(t, stub(sortedRows+2))
	out, stderr, exit = typed(t, t.Context(), nil, "gqueue -h -o %i")
	if exit != 1 || !strings.Contains(stderr, "this controller stops") || strings.Count(out, "\n") > sortedRows/2+2 {
		t.Errorf("%d lines, %q, status %d", strings.Count(out, "\n"), stderr, exit)
	}
}
