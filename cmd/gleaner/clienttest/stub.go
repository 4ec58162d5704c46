package clienttest

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// StubController is a controller made of fixed answers. It filters as far as
// the tests need and remembers what it was asked to change.
type StubController struct {
	pb.UnimplementedControllerServer
	Jobs       []*pb.Job
	Nodes      []*pb.Node
	Partitions []*pb.Partition
	Policy     *pb.Policy
	Changes    []*pb.PolicyChange
	Health     *pb.StatusResponse // nil: no controller leads
	// List, if set, answers ListJobs instead.
	List    func(stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error
	Outputs []OutputVisit // that are still to come

	mutex  sync.Mutex
	Writes []proto.Message
}

func (s *StubController) wrote(message proto.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	message = proto.Clone(message)
	if field := message.ProtoReflect().Descriptor().Fields().ByName("request_id"); field != nil {
		message.ProtoReflect().Clear(field)
	}
	s.Writes = append(s.Writes, message)
}

func (s *StubController) ListJobs(request *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	if s.List != nil {
		return s.List(stream)
	}
	filter := request.Filter
	for _, id := range filter.GetIds() {
		known := slices.ContainsFunc(s.Jobs, func(job *pb.Job) bool { return stubIs(job, id) })
		if !known && len(filter.Ids) == 1 {
			return status.Error(codes.NotFound, "Invalid job id specified")
		}
	}
	for _, job := range s.Jobs {
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

func (s *StubController) ListNodes(_ *pb.ListNodesRequest, stream grpc.ServerStreamingServer[pb.ListNodesResponse]) error {
	return stream.Send(&pb.ListNodesResponse{Nodes: s.Nodes})
}

func (s *StubController) ListPartitions(context.Context, *pb.ListPartitionsRequest) (*pb.ListPartitionsResponse, error) {
	return &pb.ListPartitionsResponse{Partitions: s.Partitions}, nil
}

func (s *StubController) Control(_ context.Context, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	s.wrote(request)
	answer := &pb.ControlResponse{}
	for _, id := range request.Filter.GetIds() {
		at := slices.IndexFunc(s.Jobs, func(job *pb.Job) bool { return stubIs(job, id) })
		switch {
		case at < 0:
			return nil, status.Error(codes.NotFound, "Invalid job id specified")
		case s.Jobs[at].EndMs != 0:
			answer.Results = append(answer.Results, &pb.JobResult{Id: id, Error: "Job has already finished", AlreadyDone: true})
		default:
			answer.Results = append(answer.Results, &pb.JobResult{Id: id})
		}
	}
	return answer, nil
}

func (s *StubController) UpdateJobs(_ context.Context, request *pb.UpdateJobsRequest) (*pb.UpdateJobsResponse, error) {
	s.wrote(request)
	answer := &pb.UpdateJobsResponse{}
	for _, id := range request.Filter.GetIds() {
		if !slices.ContainsFunc(s.Jobs, func(job *pb.Job) bool { return stubIs(job, id) }) {
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

func (s *StubController) UpdateNode(_ context.Context, request *pb.UpdateNodeRequest) (*pb.UpdateNodeResponse, error) {
	s.wrote(request)
	if request.Names == "ghost" {
		return nil, status.Error(codes.NotFound, "Invalid node name specified: ghost")
	}
	return &pb.UpdateNodeResponse{}, nil
}

// ReclaimNodes answers for n1, the only node that this user owns.
func (s *StubController) ReclaimNodes(_ context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	s.wrote(request)
	if request.Names != "n1" && request.Names != "" {
		return nil, status.Errorf(codes.PermissionDenied, "node %s belongs to account chem, of which you are no coordinator: ask one, see gacctmgr show account chem withcoord", request.Names)
	}
	return &pb.ReclaimNodesResponse{Nodes: []*pb.Node{{Name: "n1", OwnerAccount: "chem", Reclaim: StubReclaim()}}}, nil
}

func (s *StubController) ReleaseNodes(_ context.Context, request *pb.ReleaseNodesRequest) (*pb.ReleaseNodesResponse, error) {
	s.wrote(request)
	if request.Names == "n3" {
		return &pb.ReleaseNodesResponse{}, nil
	}
	return &pb.ReleaseNodesResponse{Nodes: []*pb.Node{{Name: "n1", OwnerAccount: "chem", Reclaim: StubReclaim()}}}, nil
}

// SetLending answers for n1, the only node that this user owns. It is lent at night.
func (s *StubController) SetLending(_ context.Context, request *pb.SetLendingRequest) (*pb.SetLendingResponse, error) {
	s.wrote(request)
	if request.Names != "n1" && request.Names != "" {
		return nil, status.Errorf(codes.PermissionDenied, "node %s belongs to account bio: only its coordinators, administrators and operators lend it", request.Names)
	}
	terms := StubLending()
	if len(request.Settings) > 0 {
		terms.NoticeMs = request.GetLending().GetNoticeMs()
	}
	return &pb.SetLendingResponse{Nodes: []*pb.Node{{Name: "n1", OwnerAccount: "chem", Lending: terms, Habit: StubHabit()}}}, nil
}

// ReportLending answers for chem, the account of n1.
func (s *StubController) ReportLending(_ context.Context, request *pb.ReportLendingRequest) (*pb.ReportLendingResponse, error) {
	s.wrote(request)
	return &pb.ReportLendingResponse{Owners: []*pb.OwnerReport{{
		Owner: "chem", Kept: 41, Early: 2, Open: 1, Missed: []*pb.MissedPromises{{Cause: "the node did not respond", Count: 1}},
		Lent:     []*pb.OwnerUse{{Account: "bio", Model: "a100", GpuMs: 7_200_000, CpuMs: 3_600_000, Billed: 7200}, {Account: "", CpuMs: 1_800_000, Billed: 1800}},
		Borrowed: []*pb.OwnerUse{{Account: "geo", Model: "h200", GpuMs: 36_000_000, CpuMs: 36_000, Billed: 36000}},
	}}}, nil
}

func (s *StubController) ApplyPolicy(_ context.Context, request *pb.ApplyPolicyRequest) (*pb.ApplyPolicyResponse, error) {
	s.wrote(request)
	return &pb.ApplyPolicyResponse{Changes: s.Changes}, nil
}

func (s *StubController) ShowConfig(context.Context, *pb.ShowConfigRequest) (*pb.ShowConfigResponse, error) {
	return &pb.ShowConfigResponse{Policy: s.Policy, Entries: []*pb.ConfigEntry{{Key: "ClusterName", Value: "lab"}, {Key: "MinJobAge", Value: "300 sec"}}}, nil
}

func (s *StubController) Ping(context.Context, *pb.PingRequest) (*pb.PingResponse, error) {
	return &pb.PingResponse{Peer: "c1", Role: "leader", Leader: "c1", AppliedIndex: 42, CommitIndex: 44, Level: 1, Version: "0.1.0", Term: 3, Cluster: "lab"}, nil
}

func (s *StubController) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	if s.Health == nil {
		return nil, status.Error(codes.Unavailable, "no controller leads yet: ask again in a moment")
	}
	return s.Health, nil
}

// ServeStub starts the stub on a unix socket and points the commands at it.
func ServeStub(t *testing.T, stub *StubController) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	t.Cleanup(ListenStub(t, path, stub))
	t.Setenv("GLEANER_CONTROLLER", "unix://"+path)
}

// ListenStub starts the stub on a path; what it returns ends it.
func ListenStub(t testing.TB, path string, stub *StubController) (stop func()) {
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

// StubNow is the time in all tests of what the commands print.
var StubNow = time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)

// FixTime stops the clock, for one test, and fixes the user and the
// environment.
func FixTime(t *testing.T) {
	t.Helper()
	before, who, me := console.Clock, console.UID, console.Me
	console.Clock, console.UID, console.Me = func() time.Time { return StubNow }, func() int { return 1001 }, func() string { return "ada" }
	t.Cleanup(func() { console.Clock, console.UID, console.Me = before, who, me })
}

// Changed says how often the stub was asked to try, and how often to change.
func (s *StubController) Changed() (tried, done int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, write := range s.Writes {
		var dry bool
		switch request := write.(type) {
		case *pb.ChangeAccountsRequest:
			dry = request.DryRun
		case *pb.ApplyPolicyRequest:
			dry = request.DryRun
		}
		if dry {
			tried++
		} else {
			done++
		}
	}
	return tried, done
}
