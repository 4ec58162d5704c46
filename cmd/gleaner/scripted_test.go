package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// scripted is a controller that answers as a test tells it to.
type scripted struct {
	pb.UnimplementedControllerServer
	mu       sync.Mutex
	submits  []*pb.SubmitRequest
	cancels  []*pb.CancelRequest
	onSubmit func(call int, request *pb.SubmitRequest) (*pb.SubmitResponse, error)
	onCancel func(request *pb.CancelRequest) (*pb.CancelResponse, error)
	onFollow func(call int, stream grpc.ServerStreamingServer[pb.Event]) error
	onList   func(call int) ([]*pb.Job, error)
	follows  int
	lists    int
}

func (s *scripted) Submit(_ context.Context, request *pb.SubmitRequest) (*pb.SubmitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits = append(s.submits, request)
	if s.onSubmit == nil {
		return &pb.SubmitResponse{JobId: 42}, nil
	}
	return s.onSubmit(len(s.submits), request)
}

func (s *scripted) Cancel(_ context.Context, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, request)
	if s.onCancel == nil {
		return &pb.CancelResponse{}, nil
	}
	return s.onCancel(request)
}

func (s *scripted) Follow(_ *pb.FollowRequest, stream grpc.ServerStreamingServer[pb.Event]) error {
	s.mu.Lock()
	s.follows++
	call := s.follows
	s.mu.Unlock()
	return s.onFollow(call, stream)
}

// followed answers how often Follow was asked. A client may have given such a
// question up before this side has taken it, so that its end orders nothing.
func (s *scripted) followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follows
}

func (s *scripted) ListJobs(_ *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	s.mu.Lock()
	s.lists++
	call := s.lists
	s.mu.Unlock()
	jobs, err := s.onList(call)
	if err != nil {
		return err
	}
	return stream.Send(&pb.ListJobsResponse{Jobs: jobs})
}

// serve starts a gRPC server on a unix socket and answers its target.
func serve(t testing.TB, register func(*grpc.Server), options ...grpc.ServerOption) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "gleaner") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	path := filepath.Join(directory, "sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + path
}

func (s *scripted) start(t *testing.T) string {
	return serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, s) })
}

// outcome is how a command ended.
type outcome struct {
	status         int
	stdout, stderr string
}

// command runs a command line as main does. Environment entries are
// NAME=VALUE.
func command(t *testing.T, target, stdin string, environ []string, argv ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	return commandIn(ctx, t, target, stdin, environ, argv...)
}

func commandIn(ctx context.Context, t *testing.T, target, stdin string, environ []string, argv ...string) outcome {
	t.Helper()
	t.Setenv("GLEANER_CONTROLLER", target) // proto/dial reads the process's own
	var stdout, stderr bytes.Buffer
	status := dispatch(ctx, argv, option.Streams{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ,
	})
	return outcome{status, stdout.String(), stderr.String()}
}

// TestMain: what is slow is asked once; tests of what hangs are less patient.
func TestMain(m *testing.M) {
	answerTime, pingTime = prototest.Patience, prototest.Patience
	os.Exit(m.Run())
}

// impatient makes commands give up soon.
func impatient(t *testing.T) {
	contact, notice := contactTime, noticeTime
	contactTime, noticeTime = 1500*time.Millisecond, 100*time.Millisecond
	t.Cleanup(func() { contactTime, noticeTime = contact, notice })
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
