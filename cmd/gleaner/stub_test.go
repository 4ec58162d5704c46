package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// stubController is a controller made of fixed answers. It filters as far as
// the tests need and remembers what it was asked to change.
type stubController struct {
	pb.UnimplementedControllerServer
	jobs       []*pb.Job
	nodes      []*pb.Node
	partitions []*pb.Partition
	policy     *pb.Policy
	changes    []*pb.PolicyChange
	status     *pb.StatusResponse // nil: no controller leads
	// list, if set, answers ListJobs instead.
	list func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error

	mutex  sync.Mutex
	writes []proto.Message
}

func (s *stubController) wrote(message proto.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	message = proto.Clone(message)
	if field := message.ProtoReflect().Descriptor().Fields().ByName("request_id"); field != nil {
		message.ProtoReflect().Clear(field)
	}
	s.writes = append(s.writes, message)
}

func (s *stubController) ListJobs(request *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	if s.list != nil {
		return s.list(stream)
	}
	filter := request.Filter
	for _, id := range filter.GetIds() {
		known := slices.ContainsFunc(s.jobs, func(job *pb.Job) bool { return stubIs(job, id) })
		if !known && len(filter.Ids) == 1 {
			return status.Error(codes.NotFound, "Invalid job id specified")
		}
	}
	for _, job := range s.jobs {
		if stubMatches(filter, job) {
			if err := stream.Send(&pb.ListJobsResponse{Jobs: []*pb.Job{job}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func stubIs(job *pb.Job, id *pb.JobId) bool { return job.Id.Job == id.Job || job.ArrayJobId == id.Job }

func stubMatches(filter *pb.JobFilter, job *pb.Job) bool {
	anyOf := func(n int, test func(i int) bool) bool {
		for i := range n {
			if test(i) {
				return true
			}
		}
		return n == 0
	}
	active := job.EndMs == 0 || job.Completing
	stateful := len(filter.States) > 0 || filter.Completing || filter.Configuring
	return anyOf(len(filter.Ids), func(i int) bool { return stubIs(job, filter.Ids[i]) }) &&
		anyOf(len(filter.Users), func(i int) bool { return job.Owner.User == filter.Users[i] }) &&
		anyOf(len(filter.Uids), func(i int) bool { return job.Owner.Uid == filter.Uids[i] }) &&
		anyOf(len(filter.Partitions), func(i int) bool { return job.Partition == filter.Partitions[i] }) &&
		anyOf(len(filter.Names), func(i int) bool { return job.Spec.Name == filter.Names[i] }) &&
		(filter.AllStates || stateful && (slices.Contains(filter.States, job.State) || filter.Completing && job.Completing) || !stateful && active)
}

func (s *stubController) ListNodes(_ *pb.ListNodesRequest, stream grpc.ServerStreamingServer[pb.ListNodesResponse]) error {
	return stream.Send(&pb.ListNodesResponse{Nodes: s.nodes})
}

func (s *stubController) ListPartitions(context.Context, *pb.ListPartitionsRequest) (*pb.ListPartitionsResponse, error) {
	return &pb.ListPartitionsResponse{Partitions: s.partitions}, nil
}

func (s *stubController) Control(_ context.Context, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	s.wrote(request)
	answer := &pb.ControlResponse{}
	for _, id := range request.Filter.GetIds() {
		at := slices.IndexFunc(s.jobs, func(job *pb.Job) bool { return stubIs(job, id) })
		switch {
		case at < 0:
			return nil, status.Error(codes.NotFound, "Invalid job id specified")
		case s.jobs[at].EndMs != 0:
			answer.Results = append(answer.Results, &pb.JobResult{Id: id, Error: "Job has already finished", AlreadyDone: true})
		default:
			answer.Results = append(answer.Results, &pb.JobResult{Id: id})
		}
	}
	return answer, nil
}

func (s *stubController) UpdateJobs(_ context.Context, request *pb.UpdateJobsRequest) (*pb.UpdateJobsResponse, error) {
	s.wrote(request)
	answer := &pb.UpdateJobsResponse{}
	for _, id := range request.Filter.GetIds() {
		if !slices.ContainsFunc(s.jobs, func(job *pb.Job) bool { return stubIs(job, id) }) {
			return nil, status.Error(codes.NotFound, "Invalid job id specified")
		}
		result := &pb.JobResult{Id: id}
		if id.GetJob() == 101 && request.GetChange().GetPartitions() != nil {
			result.Error = "Job is no longer pending execution (Partition can be changed only of jobs that wait)"
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

func (s *stubController) UpdateNode(_ context.Context, request *pb.UpdateNodeRequest) (*pb.UpdateNodeResponse, error) {
	s.wrote(request)
	if request.Names == "ghost" {
		return nil, status.Error(codes.NotFound, "Invalid node name specified: ghost")
	}
	return &pb.UpdateNodeResponse{}, nil
}

func (s *stubController) ApplyPolicy(_ context.Context, request *pb.ApplyPolicyRequest) (*pb.ApplyPolicyResponse, error) {
	s.wrote(request)
	return &pb.ApplyPolicyResponse{Changes: s.changes}, nil
}

func (s *stubController) ShowConfig(context.Context, *pb.ShowConfigRequest) (*pb.ShowConfigResponse, error) {
	return &pb.ShowConfigResponse{Policy: s.policy, Entries: []*pb.ConfigEntry{{Key: "ClusterName", Value: "lab"}, {Key: "MinJobAge", Value: "300 sec"}}}, nil
}

func (s *stubController) Ping(context.Context, *pb.PingRequest) (*pb.PingResponse, error) {
	return &pb.PingResponse{Peer: "c1", Role: "leader", Leader: "c1", AppliedIndex: 42, CommitIndex: 44, Level: 1, Version: "0.1.0", Term: 3}, nil
}

func (s *stubController) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	if s.status == nil {
		return nil, status.Error(codes.Unavailable, "no controller leads yet: ask again in a moment")
	}
	return s.status, nil
}

// serveStub starts the stub on a unix socket and points the commands at it.
func serveStub(t *testing.T, stub *stubController) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	t.Cleanup(listenStub(t, path, stub))
	t.Setenv("GLEANER_CONTROLLER", "unix://"+path)
}

// listenStub starts the stub on a path; what it returns ends it.
func listenStub(t testing.TB, path string, stub *stubController) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterControllerServer(server, stub)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	return func() { server.Stop(); <-done }
}

// stubNow is the time in all tests of what the commands print.
var stubNow = time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)

// fixTime stops the clock, for one test, and fixes who asks and with what.
func fixTime(t *testing.T) {
	t.Helper()
	before, who, built := clock, uid, version
	clock, uid, version = func() time.Time { return stubNow }, func() int { return 1001 }, "1.2.3"
	t.Cleanup(func() { clock, uid, version = before, who, built })
}

// typed runs a command line as the shell would and returns what it printed.
func typed(t *testing.T, ctx context.Context, environ []string, line string) (stdout, stderr string, exit int) {
	t.Helper()
	words, err := splitWords(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var out, errors bytes.Buffer
	exit = dispatch(ctx, words, option.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errors, Environ: environ})
	return out.String(), errors.String(), exit
}
