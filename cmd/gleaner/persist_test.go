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

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// accepting is a controller that takes the submission given.
func accepting(number uint32) *clienttest.Scripted {
	return &clienttest.Scripted{
		OnSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
			return &pb.SubmitResponse{JobId: number}, nil
		},
		OnList: func(int) ([]*pb.Job, error) { return nil, nil },
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
	clienttest.Impatient(t)
	client.ContactTime = time.Hour // what must not be used up
	before := client.AnswerTime
	client.AnswerTime = time.Second
	t.Cleanup(func() { client.AnswerTime = before })
	leaderless := &clienttest.Scripted{
		OnSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
			return nil, status.Error(codes.Unavailable, "no controller leads yet")
		},
		OnList: func(int) ([]*pb.Job, error) { return nil, status.Error(codes.Unavailable, "no controller leads yet") },
	}
	late := &clienttest.Scripted{OnSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) {
		return nil, status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	}}
	late.OnList = leaderless.OnList
	for name, first := range map[string]string{
		"late": late.Start(t), "dead": deadTarget(t), "stopped before": stoppedTarget(t), "stopped": hangingController(t), "without a leader": leaderless.Start(t),
		"absent": "unix://" + filepath.Join(t.TempDir(), "absent"),
	} {
		second := accepting(7)
		targets := first + "," + second.Start(t)
		got := command(t, targets, "", nil, "gsubmit", "--wrap=true")
		if got.Stdout != "Submitted batch job 7\n" || got.Status != 0 || len(second.Submits) == 0 {
			t.Fatalf("%s: %+v, %d calls of the second", name, got, len(second.Submits))
		}
		// Where all is slow the second may be asked once more.
		sent := second.Submits
		if name == "without a leader" {
			sent = append(leaderless.Submits, sent...)
		}
		if len(sent) == len(second.Submits) && name == "without a leader" ||
			slices.ContainsFunc(sent, func(request *pb.SubmitRequest) bool { return request.RequestId != sent[0].RequestId }) {
			t.Errorf("%s: the request was sent as %v", name, sent)
		}
		if got := command(t, targets, "", nil, "gqueue", "-h"); got.Status != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFinalAnswers: what another controller would answer too is not asked
// again.
func TestFinalAnswers(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.Internal, codes.NotFound} {
		first := &clienttest.Scripted{OnSubmit: func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) { return nil, status.Error(code, "no") }}
		second := accepting(7)
		got := command(t, first.Start(t)+","+second.Start(t), "", nil, "gsubmit", "--wrap=true")
		if got.Status != 1 || len(first.Submits) != 1 || len(second.Submits) != 0 {
			t.Errorf("%v: %+v, asked %d and %d times", code, got, len(first.Submits), len(second.Submits))
		}
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
			if got.Status == 0 || strings.Contains(strings.ToLower(got.Stderr), "unable to contact") {
				t.Errorf("%s: %+v", line, got)
			}
			cancel()
		}
	}
}

// endless makes commands look for a controller for longer than a test may take.
func endless(t *testing.T) {
	contact, query, answer := client.ContactTime, client.QueryTime, client.AnswerTime
	client.ContactTime, client.QueryTime, client.AnswerTime = time.Hour, time.Hour, time.Hour
	t.Cleanup(func() { client.ContactTime, client.QueryTime, client.AnswerTime = contact, query, answer })
}

// TestTimeoutVariable: how long a command looks can be said, for questions and
// changes alike.
func TestTimeoutVariable(t *testing.T) {
	endless(t)
	target := deadTarget(t)
	for _, line := range []string{"gsubmit --wrap=true", "gqueue"} {
		got := command(t, target, "", []string{client.TimeoutVariable + "=1"}, strings.Fields(line)...)
		if got.Status != 1 || !strings.Contains(strings.ToLower(got.Stderr), "unable to contact a controller") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for _, wrong := range []string{"0", "-1", "soon", "1e9", "9999999"} {
		if got := command(t, target, "", []string{client.TimeoutVariable + "=" + wrong}, "gqueue"); got.Status != 1 || !strings.Contains(got.Stderr, fmt.Sprintf("from 1 to %d", client.MaxTimeoutSeconds)) {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}

// TestToldToWait: a command of a user who asks too often waits as it is told,
// asks the same controller again with the same request, and gives up with the
// controller's words when its time is over.
func TestToldToWait(t *testing.T) {
	tooOften, err := status.New(codes.ResourceExhausted, "user 7 asks too often: wait a moment").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	clienttest.Impatient(t)
	client.ContactTime = time.Hour // what must not be used up
	first := accepting(7)
	first.OnSubmit = func(call int, _ *pb.SubmitRequest) (*pb.SubmitResponse, error) {
		if call < 4 {
			return nil, tooOften.Err()
		}
		return &pb.SubmitResponse{JobId: 7}, nil
	}
	first.OnList = func(call int) ([]*pb.Job, error) {
		if call < 3 {
			return nil, tooOften.Err()
		}
		return nil, nil
	}
	second := accepting(8)
	targets := first.Start(t) + "," + second.Start(t)
	if got := command(t, targets, "", nil, "gsubmit", "--wrap=true"); got.Stdout != "Submitted batch job 7\n" || got.Status != 0 || len(first.Submits) != 4 ||
		slices.ContainsFunc(first.Submits, func(request *pb.SubmitRequest) bool { return request.RequestId != first.Submits[0].RequestId }) {
		t.Errorf("%+v, asked %d times", got, len(first.Submits))
	}
	if got := command(t, targets, "", nil, "gqueue", "-h"); got.Status != 0 || first.Lists != 3 || len(second.Submits)+second.Lists != 0 {
		t.Errorf("%+v, asked %d times, the other controller %d", got, first.Lists, len(second.Submits)+second.Lists)
	}
	client.ContactTime = 300 * time.Millisecond
	first.OnSubmit = func(int, *pb.SubmitRequest) (*pb.SubmitResponse, error) { return nil, tooOften.Err() }
	if got := command(t, targets, "", nil, "gsubmit", "--wrap=true"); got.Status != 1 || !strings.Contains(got.Stderr, "asks too often") || strings.Contains(got.Stderr, "contact") {
		t.Errorf("%+v", got)
	}
}
