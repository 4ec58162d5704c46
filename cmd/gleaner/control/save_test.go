package control

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// savingController has one job, and shows it further on each time it is asked.
type savingController struct {
	pb.UnimplementedControllerServer
	mu    sync.Mutex
	asked *pb.SaveJobsRequest
	shows []*pb.Job
}

func (s *savingController) SaveJobs(_ context.Context, request *pb.SaveJobsRequest) (*pb.SaveJobsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = request
	result := &pb.JobResult{Id: &pb.JobId{Job: 7}, Image: 3}
	if request.Node == "n9" {
		result = &pb.JobResult{Id: &pb.JobId{Job: 7}, Error: "it cannot resume on node n9: is drained"}
	}
	return &pb.SaveJobsResponse{Results: []*pb.JobResult{result}}, nil
}

func (s *savingController) ListJobs(_ *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.shows[0]
	if len(s.shows) > 1 {
		s.shows = s.shows[1:]
	}
	return stream.Send(&pb.ListJobsResponse{Jobs: []*pb.Job{now}})
}

func TestCheckpointAndMigrate(t *testing.T) {
	running, waiting := pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_PENDING
	job := func(state pb.JobState, epoch uint32, node string, saved *pb.JobSaved) *pb.Job {
		saved.Number = 3
		return &pb.Job{Id: &pb.JobId{Job: 7}, State: state, Epoch: epoch, NodeList: node, Saved: saved}
	}
	image := &pb.SavedImage{Number: 3, Epoch: 1, Node: "n1", Bytes: 3 << 30, WrittenBytes: 5 << 20, StandingMs: 1234, PackMs: 4567}
	saving := job(running, 1, "n1", &pb.JobSaved{Saving: &pb.SaveUnderWay{Number: 3}})
	saved := job(running, 1, "n1", &pb.JobSaved{Images: []*pb.SavedImage{image}})
	waits := job(waiting, 1, "", &pb.JobSaved{Images: []*pb.SavedImage{image}})
	gone := job(running, 2, "n2", &pb.JobSaved{Images: []*pb.SavedImage{image}, RestoredFrom: image})
	waits.ReasonDetail = "moved from node n1"
	tried := job(waiting, 2, "", &pb.JobSaved{Images: []*pb.SavedImage{image}})
	tried.ReasonDetail = "image 3 could not be restored on n2: no luck"
	elsewhere := job(running, 3, "n1", &pb.JobSaved{Images: []*pb.SavedImage{image}})
	failed := job(running, 1, "n1", &pb.JobSaved{FailedNumber: 3, Failed: "an attached session is open"})
	over := job(pb.JobState_JOB_STATE_COMPLETED, 1, "n1", &pb.JobSaved{})
	again := job(running, 2, "n1", &pb.JobSaved{})
	for _, row := range []struct {
		line   string
		shows  []*pb.Job
		status int
		says   string
	}{
		{"checkpoint 7", []*pb.Job{saving, saving, saved}, 0, "job 7: saved as image 3 on node n1: 3.0 GiB, 5.0 MiB of it new; it was frozen for 1.2 s, and the image was durable after 4.5 s\n"},
		{"checkpoint 7 --no-wait", nil, 0, "job 7: image 3 is being made; gcontrol show job 7 shows the progress\n"},
		{"checkpoint 7", []*pb.Job{saving, failed}, 1, "job 7 was not saved: an attached session is open\n"},
		{"migrate 7", []*pb.Job{saving, again}, 1, "job 7 was not saved: its run ended before that, and it runs again on node n1\n"},
		{"checkpoint 7", []*pb.Job{saving, over}, 1, "job 7 was not saved: it ended before that\n"},
		{"checkpoint 7 --json", []*pb.Job{saved}, 0, `"written_bytes": 5242880`},
		{"migrate 7 n2", []*pb.Job{saving, saved, waits, gone}, 0, "job 7: resumes on node n2 from image 3, made on node n1: 3.0 GiB, 5.0 MiB of it new; it was frozen for about "},
		{"migrate 7", []*pb.Job{saving, saved, waits, tried, elsewhere}, 1, "job 7 was saved, and did not resume: it runs on node n1, and not from image 3: image 3 could not be restored on n2: no luck\n"},
		{"migrate 7", []*pb.Job{saving, waits, elsewhere}, 1, "it runs on node n1, and not from image 3\n"},
		{"migrate 7 n9", nil, 1, "job 7: it cannot resume on node n9: is drained\n"},
		{"migrate 7 n2 n3", nil, 1, "too many arguments for keyword:migrate\n"},
		{"checkpoint", nil, 1, "too few arguments for keyword:checkpoint\n"},
	} {
		controller := &savingController{shows: row.shows}
		target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
		got := command(t, target, "", nil, append([]string{"gcontrol"}, strings.Fields(row.line)...)...)
		if out := got.Stdout + got.Stderr; got.Status != row.status || !strings.Contains(out, row.says) {
			t.Errorf("gcontrol %s: status %d, says\n%s\nwant %d, and\n%s", row.line, got.Status, out, row.status, row.says)
		}
		if controller.asked != nil && controller.asked.Move != strings.HasPrefix(row.line, "migrate") {
			t.Errorf("gcontrol %s asked for %v", row.line, controller.asked)
		}
	}
}
