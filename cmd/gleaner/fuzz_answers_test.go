package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/prototest"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// hostileCommands are the command lines that a hostile controller answers; % is
// replaced by a file with a policy.
var hostileCommands = []string{
	"gqueue", "gqueue --json", "gqueue --array -l", "gqueue -j 7_1,108 --start", "gqueue --json=v0.0.39 --array", "gqueue --why 12", "gqueue --why 12_3 --json",
	"ginfo", "ginfo -N -l", "ginfo -R", "ginfo --json", "ginfo -O Partition,NodeList,Gres,Reason,Features",
	"gcontrol show job", "gcontrol show job 12 -d", "gcontrol show node -d", "gcontrol show partition", "gcontrol show config", "gcontrol show node --json", "gcontrol show licenses", "gcontrol show assoc_mgr", "gcontrol show assoc_mgr --json",
	"gcontrol show job 12 --json", "gcontrol show config --json", "gcontrol ping -d", "gcontrol ping --json",
	"gcontrol hold 12", "gcontrol release 12_[1-3]", "gcontrol requeue 12", "gcontrol update nodename=n1 state=resume", "gcontrol apply -f %", "gcontrol apply --dry-run -f %",
	"gcancel 12", "gcancel -v 12 13", "gcancel --signal=USR1 12_[1-3]", "gcancel --me",
	"gsubmit --wrap=true", "gsubmit --parsable --wrap=true", "gsubmit --wait --wrap=true", "gsubmit -v --wrap=true", "gsubmit --test-only --wrap=true",
	"greclaim n1", "greclaim n1 --wait --within=1s", "greclaim --mine --dry-run", "greclaim n1 --wait --json --within=1s", "grelease n1", "glend", "glend n1 --json", "glend report", "glend n1 --notice=1m", "grelease --mine --json",
	"gprio -l", "gprio -n -S -Y", "gprio -w", "gprio --json", "gshare -a -l", "gshare -a -P", "gshare -a --json", "gshare -a --json=v0.0.39",
	"gacct", "gacct -o ALL -P", "gacct --json", "gacct --json=v0.0.39 -D", "geff 103", "greport cluster Acc start=2026-03-01 end=2026-03-06 -T ALL", "greport user top --json",
}

// hostileController answers every call with what the input holds: messages of
// the kind that the call wants, or an error.
type hostileController struct {
	answers atomic.Pointer[hostileAnswers]
	calls   atomic.Int32
}

type hostileAnswers struct {
	code     codes.Code
	text     string
	messages [][]byte
}

// maxCalls is after how many calls a command is told that enough is enough:
// commands look for a controller that answers for as long as they are told to.
const maxHostileCalls = 12

func (h *hostileController) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	answers := h.answers.Load()
	if h.calls.Add(1) > maxHostileCalls {
		return status.Error(codes.PermissionDenied, "enough")
	}
	request := new(anyBytes)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	streams := strings.HasSuffix(method, "/ListJobs") || strings.HasSuffix(method, "/ListNodes") || strings.HasSuffix(method, "/ListPriorities") || strings.HasSuffix(method, "/ListShares") || strings.HasSuffix(method, "/Follow") || strings.HasSuffix(method, "/ListRuns")
	for _, message := range answers.messages {
		if err := stream.SendMsg(&anyBytes{data: message}); err != nil {
			return err
		}
		if !streams {
			return nil
		}
	}
	return status.Error(answers.code, answers.text)
}

// anyBytes is a message that is not decoded.
type anyBytes struct{ data []byte }

type anyCodec struct{}

func (anyCodec) Name() string                  { return "proto" }
func (anyCodec) Marshal(v any) ([]byte, error) { return v.(*anyBytes).data, nil }
func (anyCodec) Unmarshal(data []byte, v any) error {
	v.(*anyBytes).data = data
	return nil
}

// FuzzAnswers: whatever a controller answers, a command ends, with a status
// that a shell can tell from success when it was told of none, and prints
// nothing but plain text.
func FuzzAnswers(f *testing.F) {
	seedAnswers(f)
	directory := f.TempDir()
	policy := filepath.Join(directory, "policy.toml")
	if err := os.WriteFile(policy, []byte("[[partition]]\nname='p'\nnodes='ALL'\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	controller := &hostileController{}
	target := clienttest.Serve(f, func(server *grpc.Server) {}, grpc.ForceServerCodec(anyCodec{}), grpc.UnknownServiceHandler(controller.handle))
	f.Setenv("GLEANER_CONTROLLER", target)
	hurry(f)
	f.Fuzz(func(t *testing.T, which byte, code uint32, text string, data []byte) {
		_, messages := prototest.Split(data, 8)
		controller.answers.Store(&hostileAnswers{codes.Code(code % 17), text, messages})
		controller.calls.Store(0)
		line := strings.ReplaceAll(hostileCommands[int(which)%len(hostileCommands)], "%", policy)
		ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
		defer cancel()
		var stdout, stderr bytes.Buffer
		exit := dispatch(ctx, strings.Fields(line), option.Streams{Stdin: strings.NewReader("y\n"), Stdout: &stdout, Stderr: &stderr})
		if ctx.Err() != nil {
			t.Fatalf("%s does not end", line)
		}
		if exit < 0 || exit > 255 {
			t.Fatalf("%s: status %d", line, exit)
		}
		clienttest.CheckTerminal(t, line, stdout.Bytes())
		clienttest.CheckTerminal(t, line, stderr.Bytes())
	})
}

// hurry makes commands give up soon.
func hurry(f *testing.F) {
	contact, query, silence, lost := client.ContactTime, client.QueryTime, client.SilenceTime, client.LostTime
	client.ContactTime, client.QueryTime, client.SilenceTime, client.LostTime = 20*time.Millisecond, 20*time.Millisecond, time.Second, 20*time.Millisecond
	f.Cleanup(func() {
		client.ContactTime, client.QueryTime, client.SilenceTime, client.LostTime = contact, query, silence, lost
	})
}

func seedAnswers(f *testing.F) {
	stub := clienttest.StubCluster()
	sound := []proto.Message{
		&pb.ListJobsResponse{Jobs: stub.Jobs}, &pb.ListNodesResponse{Nodes: stub.Nodes}, &pb.ListPartitionsResponse{Partitions: stub.Partitions},
		&pb.ShowConfigResponse{Entries: []*pb.ConfigEntry{{Key: "a", Value: "b"}}}, &pb.PingResponse{Peer: "c1", Role: "leader"},
		&pb.CancelResponse{Results: []*pb.JobResult{{Id: &pb.JobId{Job: 12}, Error: "no"}}}, &pb.SubmitResponse{JobId: 12, Warnings: []string{"w"}},
		&pb.ApplyPolicyResponse{Changes: []*pb.PolicyChange{{Path: "a", Before: "b", After: "c"}}}, &pb.Event{What: &pb.Event_Synced{}},
		&pb.Event{What: &pb.Event_Job{Job: stub.Jobs[2]}},
		&pb.ListPrioritiesResponse{Jobs: clienttest.StubPriorities()}, &pb.ListSharesResponse{Shares: clienttest.StubShares()},
		&pb.ListRunsResponse{Runs: []*pb.PastRun{{Job: stub.Jobs[2], RanMs: 5}}}, &pb.ReclaimNodesResponse{Nodes: stub.Nodes}, &pb.SetLendingResponse{Nodes: stub.Nodes},
		&pb.ExplainWaitResponse{Job: stub.Jobs[2], Because: []string{"a"}, Start: &pb.PlannedStart{StartMs: 1}, Advice: clienttest.StubAdvice(), Asked: true},
	}
	hostile := [][]byte{}
	for _, some := range [][][]byte{
		prototest.Hostile[pb.ListJobsResponse](), prototest.Hostile[pb.ListNodesResponse](), prototest.Hostile[pb.ListPartitionsResponse](),
		prototest.Hostile[pb.ShowConfigResponse](), prototest.Hostile[pb.PingResponse](), prototest.Hostile[pb.CancelResponse](),
		prototest.Hostile[pb.SubmitResponse](), prototest.Hostile[pb.ApplyPolicyResponse](), prototest.Hostile[pb.Event](), prototest.Hostile[pb.ControlResponse](),
		prototest.Hostile[pb.ListPrioritiesResponse](), prototest.Hostile[pb.ListSharesResponse](), prototest.Hostile[pb.ListRunsResponse](),
		prototest.Hostile[pb.ReclaimNodesResponse](), prototest.Hostile[pb.SetLendingResponse](), prototest.Hostile[pb.ReportLendingResponse](),
		prototest.Hostile[pb.ExplainWaitResponse](),
	} {
		hostile = append(hostile, some[1:5]...)
	}
	for which := range hostileCommands {
		for i := range 4 {
			f.Add(byte(which), uint32(0), "", prototest.Join([]byte{0}, [][]byte{prototest.Marshal(sound[(4*which+i)%len(sound)])}))
			f.Add(byte(which), uint32(0), "", prototest.Join([]byte{0}, hostile[(4*which+i)%len(hostile):][:1]))
		}
		nasty := prototest.Nasty[which%len(prototest.Nasty)]
		f.Add(byte(which), uint32(codes.NotFound), nasty, []byte{})
		f.Add(byte(which), uint32(codes.Unavailable), nasty, []byte{})
	}
}
