package api

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// method is one of the Controller's, from the bytes of a request on.
type method struct {
	call  func(t *testing.T, s *Controller, ctx context.Context, data []byte) error
	seeds []proto.Message
	wild  [][]byte
}

// one makes a method of a handler that answers once.
func one[Q, A any, PQ interface {
	*Q
	proto.Message
}, PA interface {
	*A
	proto.Message
}](handler func(*Controller, context.Context, *Q) (*A, error), seeds ...proto.Message) method {
	return method{seeds: seeds, wild: prototest.Hostile[Q, PQ](), call: func(t *testing.T, s *Controller, ctx context.Context, data []byte) error {
		request := PQ(new(Q))
		if proto.Unmarshal(data, request) != nil {
			return nil
		}
		answer, err := handler(s, ctx, request)
		if err == nil {
			checkAnswer(t, PA(answer))
		}
		return err
	}}
}

// many makes a method of a handler that answers in a stream.
func many[Q, A any, PQ interface {
	*Q
	proto.Message
}, PA interface {
	*A
	proto.Message
}](handler func(*Controller, *Q, *sink[A, PA]) error, seeds ...proto.Message) method {
	return method{seeds: seeds, wild: prototest.Hostile[Q, PQ](), call: func(t *testing.T, s *Controller, ctx context.Context, data []byte) error {
		request := PQ(new(Q))
		if proto.Unmarshal(data, request) != nil {
			return nil
		}
		return handler(s, request, &sink[A, PA]{t: t, ctx: ctx})
	}}
}

func methods() []method {
	task := uint32(2)
	byID := &pb.JobFilter{Ids: []*pb.JobId{{Job: 1}, {Job: 2, ArrayTask: &task}, {Job: 77}}}
	some := []*pb.ArrayTasks{{Job: 2, Ranges: []*pb.ArrayRange{{First: 0, Last: 2, Step: 2}, {First: 4, Last: 4, Step: 1}}}}
	submit := func(change func(*pb.JobSpec)) *pb.SubmitRequest {
		job := goodSpec()
		change(job)
		return &pb.SubmitRequest{RequestId: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Spec: job}
	}
	return []method{
		one((*Controller).Submit, submit(func(*pb.JobSpec) {}),
			submit(func(s *pb.JobSpec) {
				s.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 4_000_000, Step: 1}}}
			}),
			submit(func(s *pb.JobSpec) {
				s.Tasks, s.TasksPerNode, s.CpusPerTask, s.MinNodes, s.MaxNodes = 1<<24, 1<<24, 8192, 65536, 65536
			}),
			submit(func(s *pb.JobSpec) { s.NodeList, s.ExcludeNodes, s.Constraint = "n[0000-0001]", "n0002", "a&b&a" }),
			submit(func(s *pb.JobSpec) { s.MemoryPerCpuBytes, s.CpusPerTask, s.Tasks = 1<<60, 8192, 1<<24 }),
			submit(func(s *pb.JobSpec) {
				s.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1 << 20}, {Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 1 << 20, Model: "m"}}
			}),
			submit(func(s *pb.JobSpec) {
				s.Tasks, s.TasksPerGpu, s.CpusPerGpu, s.MemoryPerGpuBytes = 8, 2, 4, 1<<30
				s.Constraint, s.Switches, s.SwitchesWaitS, s.ExclusiveUser = "a&[(b|!c)*2&d*1]", 1, 60, true
			}),
			submit(func(s *pb.JobSpec) {
				s.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_TASK, Count: 1 << 20}, {Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 1 << 20}}
				s.AllMemory, s.Contiguous, s.SpreadJob, s.MaxNodes, s.Constraint = true, true, true, 65536, "[a|b]"
			}),
			submit(func(s *pb.JobSpec) {
				s.Dependency, s.KillOnInvalidDependency = "after:1+5,aftercorr:2?singleton", new(bool)
				s.BeginMs, s.DeadlineMs, s.Priority = 1_900_000_000_000, 1_900_000_600_000, &task
			}),
			submit(func(s *pb.JobSpec) { s.Environment, s.Arguments = []string{"A=\x00"}, []string{"\x00"} }),
			submit(func(s *pb.JobSpec) { s.TimeLimitS, s.Nice = 4294967295, -2147483648 }),
			&pb.SubmitRequest{AsUser: "ada", Spec: goodSpec()}),
		one((*Controller).Cancel, &pb.CancelRequest{Filter: byID, Tasks: some}, &pb.CancelRequest{Filter: &pb.JobFilter{Users: []string{"ada"}}},
			&pb.CancelRequest{Filter: byID, Signal: 10, Full: true}),
		one((*Controller).Control, &pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_HOLD, Filter: byID, Tasks: some},
			&pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE, Filter: byID}, &pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_RELEASE, Tasks: some}),
		one((*Controller).UpdateJobs, &pb.UpdateJobsRequest{Filter: byID, Tasks: some, Change: &pb.JobChange{
			TimeLimitS: &task, Partitions: []string{"main"}, MinNodes: &task, Tasks: &task, Gpus: &pb.GpuRequests{Requests: []*pb.GpuRequest{{Count: 1}}},
			Dependency: proto.String("afterok:1?singleton"), NodeList: proto.String("n[0001-0002]"), Licenses: proto.String("a:2")}},
			&pb.UpdateJobsRequest{Filter: byID, Change: &pb.JobChange{AddTimeS: -60, ResetAccrueTime: true, BeginMs: proto.Int64(1), Priority: &task}}),
		many(func(s *Controller, q *pb.ListJobsRequest, out *sink[pb.ListJobsResponse, *pb.ListJobsResponse]) error {
			return s.ListJobs(q, out)
		},
			&pb.ListJobsRequest{WithScript: true, WithEnvironment: true, Filter: &pb.JobFilter{AllStates: true}}, &pb.ListJobsRequest{Filter: byID}),
		many(func(s *Controller, q *pb.ListNodesRequest, out *sink[pb.ListNodesResponse, *pb.ListNodesResponse]) error {
			return s.ListNodes(q, out)
		},
			&pb.ListNodesRequest{Names: "n[0000-0009]", Partitions: []string{"main"}}),
		one((*Controller).ListPartitions, &pb.ListPartitionsRequest{}),
		one((*Controller).UpdateNode, &pb.UpdateNodeRequest{Names: "n0001", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "r"},
			&pb.UpdateNodeRequest{Names: "ALL", Action: pb.NodeAction_NODE_ACTION_FENCED}),
		one((*Controller).ReclaimNodes, &pb.ReclaimNodesRequest{RequestId: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Names: "n[0000-0001]", WithinS: 5},
			&pb.ReclaimNodesRequest{Names: "n0000", DryRun: true, ForS: 60}, &pb.ReclaimNodesRequest{Names: "n0001,n0000", Kill: true, UntilMs: 1 << 60, WithinS: 1 << 31}, &pb.ReclaimNodesRequest{}),
		one((*Controller).ReleaseNodes, &pb.ReleaseNodesRequest{RequestId: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Names: "n[0000-0001]"}, &pb.ReleaseNodesRequest{}),
		many(func(s *Controller, q *pb.ContainerImagesRequest, out *sink[pb.ContainerImagesResponse, *pb.ContainerImagesResponse]) error {
			return s.ContainerImages(q, out)
		}, &pb.ContainerImagesRequest{Verb: pb.ImagesVerb_IMAGES_VERB_REMOVE, Nodes: "n[0000-0001]", Image: "lab.example/xy"},
			&pb.ContainerImagesRequest{Verb: pb.ImagesVerb_IMAGES_VERB_PULL, Partitions: []string{"main"}, Image: "docker://lab.example/xy@sha256:" + strings.Repeat("0", 64)}),
		one((*Controller).SetLending, &pb.SetLendingRequest{RequestId: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Names: "n[0000-0001]", Settings: []string{"hours", "notice_ms"}, Lending: &pb.Lending{Hours: "Mon 18:00-08:00", NoticeMs: 1000}},
			&pb.SetLendingRequest{Names: "n0000", DryRun: true, FromDefault: true}, &pb.SetLendingRequest{}),
		one((*Controller).ReportLending, &pb.ReportLendingRequest{}, &pb.ReportLendingRequest{SinceMs: 1 << 62, UntilMs: -1}),
		one((*Controller).ApplyPolicy, &pb.ApplyPolicyRequest{Policy: goodPolicy}, &pb.ApplyPolicyRequest{Policy: &pb.Policy{Partitions: []*pb.Partition{{Name: "x", Nodes: "n[1-99999]"}}}, DryRun: true}),
		one((*Controller).ShowConfig, &pb.ShowConfigRequest{}),
		many(func(s *Controller, q *pb.ListAccountsRequest, out *sink[pb.ListAccountsResponse, *pb.ListAccountsResponse]) error {
			return s.ListAccounts(q, out)
		}, &pb.ListAccountsRequest{}, &pb.ListAccountsRequest{Accounts: []string{"root"}, Users: []string{"ada"}}),
		one((*Controller).ChangeAccounts, labChanges(), &pb.ChangeAccountsRequest{DryRun: true, Changes: labChanges().Changes[1:]}),
		one((*Controller).Ping, &pb.PingRequest{}),
		one((*Controller).ExplainWait, &pb.ExplainWaitRequest{Id: byID.Ids[0]}, &pb.ExplainWaitRequest{Id: byID.Ids[1]}, &pb.ExplainWaitRequest{}),
		one((*Controller).TestSubmission, submit(func(*pb.JobSpec) {}), submit(func(s *pb.JobSpec) { s.MinNodes, s.MaxNodes = 1, 2 })),
		many(func(s *Controller, q *pb.FollowRequest, out *sink[pb.Event, *pb.Event]) error {
			return s.Follow(q, out)
		},
			&pb.FollowRequest{}, &pb.FollowRequest{Filter: byID}),
		many(func(s *Controller, q *pb.ListPrioritiesRequest, out *sink[pb.ListPrioritiesResponse, *pb.ListPrioritiesResponse]) error {
			return s.ListPriorities(q, out)
		},
			&pb.ListPrioritiesRequest{Ids: byID.Ids, Users: []string{"ada"}, Uids: []uint32{1000}, Partitions: []string{"main"}}),
		many(func(s *Controller, q *pb.ListSharesRequest, out *sink[pb.ListSharesResponse, *pb.ListSharesResponse]) error {
			return s.ListShares(q, out)
		},
			&pb.ListSharesRequest{}),
	}
}

// FuzzRequests: whoever sends whatever to any method gets an answer that can be
// sent, or a refusal in plain words; the state stays sound, what waits can be
// planned and what is planned fits; and no list that others ask for breaks.
func FuzzRequests(f *testing.F) {
	base, all := seedState(f), methods()
	for which, method := range all {
		for _, seed := range method.seeds {
			for caller := range byte(2) {
				f.Add(byte(which), caller, "1.1", "1000", "n0000", prototest.Marshal(seed))
			}
		}
		for _, data := range prototest.Spoiled(method.seeds[0]) {
			f.Add(byte(which), byte(0), "1.1", "1000", "n0000", data)
		}
		for i, data := range method.wild {
			f.Add(byte(which), byte(i), "1.1", "1000", "n0000", data)
		}
		f.Add(byte(which), byte(4), "1.1", "1000", "n0000", prototest.Marshal(method.seeds[0]))
	}
	f.Fuzz(func(t *testing.T, which, caller byte, run, uid, node string, data []byte) {
		s, l := newFuzzServer(t, base)
		ctx, cancel := context.WithTimeout(callerContext(caller, run, uid, node), 0)
		if which%16 < 12 { // the rest are calls that nobody waits for any more
			cancel()
			ctx, cancel = context.WithCancel(callerContext(caller, run, uid, node))
		}
		defer cancel()
		method := all[int(which)%len(all)]
		checkStatus(t, method.call(t, s.users, ctx, data))
		checkStatus(t, method.call(t, s.users, ctx, data)) // a retry
		l.plan()
		l.checkShown()
		everything := &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true}}
		if err := s.users.ListJobs(everything, &sink[pb.ListJobsResponse, *pb.ListJobsResponse]{t: t, ctx: callerContext(1, "", "", "")}); err != nil {
			t.Fatal(err)
		}
	})
}
