package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/tally"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// ledger is a Cluster and the Loops of a leader, without a log: commands are
// applied at once, and every state is checked.
type ledger struct {
	t        testing.TB
	mu       sync.Mutex // of state: a session's leases are granted beside what it reports
	state    *state.State
	sessions *session.Registry
}

func (l *ledger) View() *state.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View()
}

func (l *ledger) Propose(_ context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, err := state.Encode(command, id, l.state.TimeMS()+1)
	if err != nil {
		return state.Result{}, err
	}
	result, err := l.state.Apply(l.state.Index()+1, entry)
	if err != nil {
		l.t.Fatalf("an entry that this controller wrote stops it: %v", err)
	}
	if err := l.state.Check(); err != nil {
		l.t.Fatalf("after %T: %v", command, err)
	}
	return result, nil
}

func (l *ledger) Follow() (<-chan Change, *state.View, func()) {
	changes := make(chan Change, 64)
	for job := range l.View().Jobs(0) {
		changes <- Change{View: l.View(), Result: &state.Result{ChangedJobs: []uint32{job.ID, 999}, PurgedJobs: []uint32{job.ID}, ChangedNodes: []string{"n0001", "x"}}}
	}
	close(changes)
	return changes, l.View(), func() {}
}

func (l *ledger) IsLeader() bool                       { return true }
func (l *ledger) Confirm(context.Context) error        { return nil }
func (l *ledger) Over() <-chan struct{}                { return nil }
func (l *ledger) LastContact() time.Duration           { return 0 }
func (l *ledger) Leader() string                       { return "c1" }
func (l *ledger) Name() string                         { return "c1" }
func (l *ledger) Members() []string                    { return []string{"c1"} }
func (l *ledger) Term() uint64                         { return 1 }
func (l *ledger) CommitIndex() uint64                  { return l.View().Index() }
func (l *ledger) AppliedIndex() uint64                 { return l.View().Index() }
func (l *ledger) Overlay(uint32) (state.Overlay, bool) { return state.Overlay{}, false }
func (l *ledger) Snapshot(view *state.View, now time.Time) sched.Snapshot {
	return view.SchedSnapshot(now.UnixMilli())
}
func (l *ledger) Sessions() *session.Registry    { return l.sessions }
func (l *ledger) Leading() bool                  { return true }
func (l *ledger) Work() *tally.Work              { return tally.NewWork(time.Now()) }
func (l *ledger) OpenTerm(context.Context) error { return nil }
func (l *ledger) Fencing(string) string          { return "" }

func (l *ledger) Replace(_ context.Context, file *os.File) (*state.View, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	replaced, err := state.Restore(file)
	if err == nil {
		err = replaced.Recover(state.Restored{TimeMS: l.state.TimeMS(), Former: l.View()})
	}
	if err != nil {
		return nil, err
	}
	l.state = replaced
	return replaced.View(), nil
}

func (l *ledger) Ready(ctx context.Context, s *session.Session, ready *pb.AllocReady) error {
	alloc := session.AllocOf(ready.GetAlloc())
	s.Report(alloc, session.Reported{Ready: true})
	_, err := l.Propose(ctx, state.AllocsReady{Allocs: []state.AllocRef{{Job: alloc.Job, Epoch: alloc.Epoch, Node: s.Node()}}}, state.RequestID{})
	return err
}

func (l *ledger) Ended(ctx context.Context, s *session.Session, ended *pb.AllocEnded) error {
	alloc := session.AllocOf(ended.GetAlloc())
	s.Report(alloc, session.Reported{Ready: true, Over: true})
	_, err := l.Propose(ctx, state.AllocsEnded{Reports: []state.AllocReport{state.ReportFromMessage(s.Node(), ended)}}, state.RequestID{})
	s.Forget(alloc)
	return err
}

func (l *ledger) Suspended(ctx context.Context, s *session.Session, said *pb.AllocSuspended) error {
	_, err := l.Propose(ctx, state.AllocsSuspended{Reports: []state.SuspendReport{state.SuspendReportFromMessage(s.Node(), said)}}, state.RequestID{})
	return err
}

func (l *ledger) OverlaySaved(*state.Job, *state.Overlay) {}

func (l *ledger) Saved(ctx context.Context, s *session.Session, saved *pb.AllocSaved) error {
	_, err := l.Propose(ctx, state.AllocsSaved{Reports: []state.SaveReport{state.SaveReportFromMessage(s.Node(), saved)}}, state.RequestID{})
	return err
}

func (l *ledger) Checkpointable(s *session.Session, checkpointable *pb.AllocCheckpointable) {
	s.SetCheckpointable(session.AllocOf(checkpointable.GetAlloc()), session.Checkpointable{Checkpointable: checkpointable.GetCheckpointable(), Reason: checkpointable.GetReason()})
}

func (l *ledger) Restores(*session.Session, *pb.RestoreAnswer)                      {}
func (l *ledger) Hurry()                                                            {}
func (l *ledger) Fetched(context.Context, *session.Session, *pb.ImageFetched) error { return nil }

// plan starts what fits, and fails when a start of a plan does not.
func (l *ledger) plan() {
	snapshot := l.View().SchedSnapshot(l.state.TimeMS())
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	if len(plan.Starts) == 0 {
		return
	}
	result, err := l.Propose(context.Background(), state.PlanToCommand(&snapshot, &plan), state.RequestID{})
	if err != nil || result.Refused != nil {
		l.t.Fatalf("a plan is refused: %v, %v", err, result.Refused)
	}
	for _, start := range result.Starts {
		if start.Dropped != "" {
			l.t.Fatalf("a planned start of job %d is dropped: %s", start.Asked, start.Dropped)
		}
	}
}

// checkShown fails when something cannot be sent to its caller.
func (l *ledger) checkShown() {
	view := l.View()
	for job := range view.Jobs(0) {
		if _, err := proto.Marshal(view.JobMessage(job, state.Overlay{}, state.JobDetail{Script: true, Environment: true})); err != nil {
			l.t.Fatalf("job %d cannot be shown: %v", job.ID, err)
		}
	}
	for node := range view.Nodes() {
		if _, err := proto.Marshal(view.NodeMessage(node)); err != nil {
			l.t.Fatalf("node %s cannot be shown: %v", node.Name, err)
		}
		for _, wanted := range view.WantedAllocs(node.Name) {
			order, err := view.StartAlloc(wanted.Job, node.Name)
			if err == nil {
				_, err = proto.Marshal(order)
			}
			if err != nil {
				l.t.Fatalf("job %d cannot be started: %v", wanted.Job, err)
			}
		}
	}
}

const fuzzUser = 1000 // "ada", an ordinary user

var goodPolicy = &pb.Policy{
	ClusterName: "fuzz", Administrators: []string{"grace"},
	Partitions: []*pb.Partition{
		{Name: "main", Nodes: "ALL", IsDefault: true, Up: true, MaxTimeS: spec.Unlimited, AllowRootJobs: true, PriorityTier: 1},
		{Name: "closed", Nodes: "n0001", AllowGroups: []string{"nobody-is-in-it"}, MaxTimeS: 60},
	},
}

// seedState is a state in which everything occurs: jobs of two users that wait,
// run, are held and over, an array, and a gang; persisted.
func seedState(f *testing.F) []byte {
	ada := &pb.Identity{Uid: fuzzUser, Gid: fuzzUser, Groups: []uint32{fuzzUser}, User: "ada", Group: "ada", Home: "/home/ada", Shell: "/bin/sh"}
	until := time.Now().Add(24 * time.Hour)
	accounts.Lock()
	accounts.entries["#1000"] = accountEntry{owner: ada, until: until}
	accounts.entries["ada"] = accountEntry{owner: ada, until: until}
	accounts.Unlock()
	l := &ledger{t: f, state: machinesOf(f, 3)}
	must := func(command state.Command) {
		if result, err := l.Propose(context.Background(), command, state.RequestID{}); err != nil || result.Refused != nil {
			f.Fatal(err, result.Refused)
		}
	}
	site, err := policy.Normalize(policy.FromMessage(goodPolicy))
	if err != nil {
		f.Fatal(err)
	}
	must(state.ApplyPolicy{Policy: *site})
	for i, change := range []func(*pb.JobSpec){
		func(s *pb.JobSpec) { s.MinNodes = 2 },
		func(s *pb.JobSpec) {
			s.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 8, Step: 2}}, MaxRunning: 2}
		},
		func(s *pb.JobSpec) {
			s.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 4, Model: "m"}}
		},
		func(s *pb.JobSpec) { s.Hold = true },
		func(s *pb.JobSpec) { s.Exclusive, s.MinNodes = true, 3 },
	} {
		job := goodSpec()
		job.Requeue = true
		change(job)
		owner := ada
		if i == 2 {
			owner = &pb.Identity{User: "root", Group: "root"}
		}
		command, err := state.SubmitFromSpec(job, owner)
		if err != nil {
			f.Fatal(err)
		}
		must(command)
		l.plan()
	}
	must(state.AllocsReady{Allocs: []state.AllocRef{{Job: 1, Epoch: 1, Node: "n0000"}}})
	var out bytes.Buffer
	if err := l.View().Persist(&out); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// Remembered returns what the copy remembers.
func (l *ledger) Remembered(id state.RequestID, kind state.Kind) (state.Result, bool) {
	return l.state.Remembered(id, kind)
}

// newFuzzServer makes a server over a copy of the state.
func newFuzzServer(t *testing.T, persisted []byte) (*Server, *ledger) {
	restored, err := state.Restore(bytes.NewReader(persisted))
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t: t, state: restored, sessions: session.NewRegistry(func(string) {})}
	return NewServer(l, l, Options{Version: "fuzz", Logger: slog.New(slog.DiscardHandler)}), l
}

// callerContext is the context of a call: of root, an ordinary user, one that has no
// account, a node's supervisor that vouches for a job, or of nobody.
func callerContext(which byte, run, uid, node string) context.Context {
	as := func(uid uint32) context.Context {
		return peer.NewContext(context.Background(), &peer.Peer{AuthInfo: peerInfo{uid: uid}})
	}
	switch which % 6 {
	case 0:
		return as(0)
	case 1, 2:
		return as(fuzzUser)
	case 3:
		return as(3_999_999_999)
	case 4:
		return metadata.NewIncomingContext(as(0), metadata.Pairs(metadataJob, run, metadataUID, uid, metadataNode, node))
	}
	return context.Background()
}

// checkStatus fails when an error is no clear refusal.
func checkStatus(t *testing.T, err error) {
	t.Helper()
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // the caller is gone
	}
	s, ok := status.FromError(err)
	switch {
	case !ok || s.Code() == codes.Unknown || s.Code() == codes.Internal:
		t.Fatalf("not a refusal: %v", err)
	case len(s.Message()) == 0 || len(s.Message()) > 8<<10:
		t.Fatalf("%d bytes of words: %.200s", len(s.Message()), s.Message())
	}
	if err := prototest.Plain(s.Message()); err != nil {
		t.Fatalf("a refusal that is not plain text: %v", err)
	}
}

// sink is a server's stream of answers, none of which may be too large to send.
type sink[M any, P interface {
	*M
	proto.Message
}] struct {
	grpc.ServerStream
	t   *testing.T
	ctx context.Context
}

func (s *sink[M, P]) Context() context.Context { return s.ctx }
func (s *sink[M, P]) Send(message *M) error {
	checkAnswer(s.t, P(message))
	return nil
}

func (s *sink[M, P]) SendMsg(message any) error {
	checkAnswer(s.t, message.(proto.Message))
	return nil
}

func checkAnswer(t *testing.T, message proto.Message) {
	t.Helper()
	data, err := proto.Marshal(message)
	if err != nil || len(data) > spec.MaxMessageBytes {
		t.Fatalf("an answer of %d bytes: %v", len(data), err)
	}
}
