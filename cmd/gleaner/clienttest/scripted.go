package clienttest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Scripted is a controller that answers as a test tells it to.
type Scripted struct {
	pb.UnimplementedControllerServer
	mu       sync.Mutex
	Submits  []*pb.SubmitRequest
	Cancels  []*pb.CancelRequest
	OnSubmit func(call int, request *pb.SubmitRequest) (*pb.SubmitResponse, error)
	OnCancel func(request *pb.CancelRequest) (*pb.CancelResponse, error)
	OnFollow func(call int, stream grpc.ServerStreamingServer[pb.Event]) error
	OnList   func(call int) ([]*pb.Job, error)
	follows  int
	Lists    int
}

func (s *Scripted) Submit(_ context.Context, request *pb.SubmitRequest) (*pb.SubmitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Submits = append(s.Submits, request)
	if s.OnSubmit == nil {
		return &pb.SubmitResponse{JobId: 42}, nil
	}
	return s.OnSubmit(len(s.Submits), request)
}

// ShowConfig knows the name of the cluster.
func (s *Scripted) ShowConfig(context.Context, *pb.ShowConfigRequest) (*pb.ShowConfigResponse, error) {
	return &pb.ShowConfigResponse{Entries: []*pb.ConfigEntry{{Key: "ClusterName", Value: "lab"}}}, nil
}

func (s *Scripted) Cancel(_ context.Context, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Cancels = append(s.Cancels, request)
	if s.OnCancel == nil {
		return &pb.CancelResponse{}, nil
	}
	return s.OnCancel(request)
}

func (s *Scripted) Follow(_ *pb.FollowRequest, stream grpc.ServerStreamingServer[pb.Event]) error {
	s.mu.Lock()
	s.follows++
	call := s.follows
	s.mu.Unlock()
	return s.OnFollow(call, stream)
}

// Followed returns how often Follow was asked. A client may have given such a
// question up before this side has taken it, so that its end orders nothing.
func (s *Scripted) Followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follows
}

func (s *Scripted) ListJobs(_ *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	s.mu.Lock()
	s.Lists++
	call := s.Lists
	s.mu.Unlock()
	jobs, err := s.OnList(call)
	if err != nil {
		return err
	}
	return stream.Send(&pb.ListJobsResponse{Jobs: jobs})
}

// Serve starts a gRPC server on a unix socket and returns its target.
func Serve(t testing.TB, register func(*grpc.Server), options ...grpc.ServerOption) string {
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

// Start serves the controller and returns its target.
func (s *Scripted) Start(t *testing.T) string {
	return Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, s) })
}

// Impatient makes commands give up soon.
func Impatient(t *testing.T) {
	contact, notice := client.ContactTime, client.NoticeTime
	client.ContactTime, client.NoticeTime = 1500*time.Millisecond, 100*time.Millisecond
	t.Cleanup(func() { client.ContactTime, client.NoticeTime = contact, notice })
}

// WriteFile writes a file and returns its path.
func WriteFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
