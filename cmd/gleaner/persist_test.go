package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// accepting is a controller that takes the submission given.
func accepting(number uint32) *scripted {
	return &scripted{
		onSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
			return &pb.SubmitResponse{JobId: number}, nil
		},
		onList: func(int) ([]*pb.Job, error) { return nil, nil },
	}
}

// deadTarget is a socket on which nobody listens any more.
func deadTarget(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "dead")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	return "unix://" + path
}

// stoppedTarget is what a stopped process looks like: the kernel accepts, and
// nothing comes.
func stoppedTarget(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "stopped")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "unix://" + path
}

// TestNextController: whatever is wrong with the first controller, the second
// one gets the same request.
func TestNextController(t *testing.T) {
	impatient(t)
	contactTime = time.Hour // what must not be used up
	before := answerTime
	answerTime = time.Second
	t.Cleanup(func() { answerTime = before })
	leaderless := &scripted{
		onSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
			return nil, status.Error(codes.Unavailable, "no controller leads yet")
		},
		onList: func(int) ([]*pb.Job, error) { return nil, status.Error(codes.Unavailable, "no controller leads yet") },
	}
	late := &scripted{onSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
		return nil, status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	}}
	late.onList = leaderless.onList
	for name, first := range map[string]string{
		"late": late.start(t), "dead": deadTarget(t), "stopped before": stoppedTarget(t), "stopped": hangingController(t), "without a leader": leaderless.start(t),
		"absent": "unix://" + filepath.Join(t.TempDir(), "absent"),
	} {
		second := accepting(7)
		targets := first + "," + second.start(t)
		got := command(t, targets, "", nil, "gsubmit", "--wrap=true")
		if got.stdout != "Submitted batch job 7\n" || got.status != 0 || len(second.submits) == 0 {
			t.Fatalf("%s: %+v, %d calls of the second", name, got, len(second.submits))
		}
		// Where all is slow the second may be asked once more.
		sent := second.submits
		if name == "without a leader" {
			sent = append(leaderless.submits, sent...)
		}
		if len(sent) == len(second.submits) && name == "without a leader" ||
			slices.ContainsFunc(sent, func(request *pb.SubmitRequest) bool { return request.RequestId != sent[0].RequestId }) {
			t.Errorf("%s: the request was sent as %v", name, sent)
		}
		if got := command(t, targets, "", nil, "gqueue", "-h"); got.status != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFinalAnswers: what another controller would answer too is not asked
// again.
func TestFinalAnswers(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.Internal, codes.NotFound} {
		first := &scripted{onSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) { return nil, status.Error(code, "no") }}
		second := accepting(7)
		got := command(t, first.start(t)+","+second.start(t), "", nil, "gsubmit", "--wrap=true")
		if got.status != 1 || len(first.submits) != 1 || len(second.submits) != 0 {
			t.Errorf("%v: %+v, asked %d and %d times", code, got, len(first.submits), len(second.submits))
		}
	}
}

// TestListBeginsAnew: a list that broke off is asked for again while nothing
// of it has been shown, and only then.
func TestListBeginsAnew(t *testing.T) {
	stub := func(jobs int) *stubController {
		calls := 0
		return &stubController{list: func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
			calls++
			for number := range uint32(jobs) {
				job := &pb.Job{Id: &pb.JobId{Job: number + 1}, Spec: &pb.JobSpec{}, Owner: &pb.Identity{}, State: isPending}
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
	serveStub(t, stub(4))
	out, stderr, exit := typed(t, t.Context(), nil, "gqueue -h -o %i")
	if out != "1\n2\n3\n4\n" || exit != 0 || stderr != "" {
		t.Errorf("%q, %q, status %d", out, stderr, exit)
	}
	serveStub(t, stub(sortedRows+2))
	out, stderr, exit = typed(t, t.Context(), nil, "gqueue -h -o %i")
	if exit != 1 || !strings.Contains(stderr, "this controller stops") || strings.Count(out, "\n") > sortedRows/2+2 {
		t.Errorf("%d lines, %q, status %d", strings.Count(out, "\n"), stderr, exit)
	}
}

// TestInterruptedSearch: Ctrl-C ends the search at once.
func TestInterruptedSearch(t *testing.T) {
	endless(t)
	for _, target := range []string{deadTarget(t), stoppedTarget(t), hangingController(t)} {
		for _, line := range []string{"gsubmit --wrap=true", "gqueue", "gcancel 1", "gcontrol show node"} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			got := commandIn(ctx, t, target, "", nil, strings.Fields(line)...)
			if got.status == 0 || strings.Contains(strings.ToLower(got.stderr), "unable to contact") {
				t.Errorf("%s: %+v", line, got)
			}
			cancel()
		}
	}
}

// endless makes commands look for a controller for longer than a test may take.
func endless(t *testing.T) {
	contact, query, answer := contactTime, queryTime, answerTime
	contactTime, queryTime, answerTime = time.Hour, time.Hour, time.Hour
	t.Cleanup(func() { contactTime, queryTime, answerTime = contact, query, answer })
}

// TestTimeoutVariable: how long a command looks can be said, for questions and
// changes alike.
func TestTimeoutVariable(t *testing.T) {
	endless(t)
	target := deadTarget(t)
	for _, line := range []string{"gsubmit --wrap=true", "gqueue"} {
		got := command(t, target, "", []string{timeoutVariable + "=1"}, strings.Fields(line)...)
		if got.status != 1 || !strings.Contains(strings.ToLower(got.stderr), "unable to contact a controller") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for _, wrong := range []string{"0", "-1", "soon", "1e9", "9999999"} {
		if got := command(t, target, "", []string{timeoutVariable + "=" + wrong}, "gqueue"); got.status != 1 || !strings.Contains(got.stderr, fmt.Sprintf("from 1 to %d", maxTimeoutSeconds)) {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}
