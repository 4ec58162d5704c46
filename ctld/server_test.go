package ctld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// asMain makes this test program behave as gctld, so that a test can kill it.
const asMain = "GLEANER_TEST_AS_GCTLD"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		if err := Command("test").Run(os.Args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// shortDir is a directory whose paths fit a unix socket's address.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gctld")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func configIn(dir string) Config {
	config := DefaultConfig()
	config.Name, config.DataDir, config.Socket = "c1", filepath.Join(dir, "data"), filepath.Join(dir, "s")
	return config
}

func startServer(t testing.TB, config Config) *Server {
	t.Helper()
	return startLogging(t, config, testLog(t))
}

func testLog(t testing.TB) *slog.Logger {
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: level}))
}

func startLogging(t testing.TB, config Config, log *slog.Logger) *Server {
	t.Helper()
	server, err := Start(config, "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	prototest.Receive(t, "the controller is ready", server.Ready())
	return server
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

func connectTo(t testing.TB, target, tlsDir string) *grpc.ClientConn {
	t.Helper()
	conn, err := dial.Dial([]string{target}, tlsDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// soon bounds one call of a test.
func soon(t testing.TB) context.Context { t.Helper(); return prototest.Soon(t) }

// patience is what a test waits for what has to come.
const patience = prototest.Patience

// job is a small job; run by root it is submitted for nobody.
func job(change ...func(*pb.SubmitRequest)) *pb.SubmitRequest {
	request := &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: &pb.JobSpec{
		Name: "test", Script: []byte("#!/bin/sh\ntrue\n"), WorkDirectory: "/tmp", MemoryPerCpuBytes: 1 << 20,
	}}
	if os.Geteuid() == 0 {
		request.AsUser = "nobody"
	}
	for _, f := range change {
		f(request)
	}
	return request
}

func submit(t testing.TB, conn *grpc.ClientConn, request *pb.SubmitRequest) uint32 {
	t.Helper()
	answer, err := pb.NewControllerClient(conn).Submit(soon(t), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetJobId()
}

func list(t testing.TB, conn *grpc.ClientConn, filter *pb.JobFilter) []*pb.Job {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		jobs, err := tryList(t, conn, &pb.ListJobsRequest{Filter: filter})
		if err == nil {
			return jobs
		}
		if status.Code(err) != codes.Unavailable || time.Now().After(end) { // no controller leads now
			t.Fatal(err)
		}
	}
}

func tryList(t testing.TB, conn *grpc.ClientConn, request *pb.ListJobsRequest) ([]*pb.Job, error) {
	t.Helper()
	stream, err := pb.NewControllerClient(conn).ListJobs(soon(t), request, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	var jobs []*pb.Job
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return jobs, nil
		}
		if err != nil {
			return nil, err
		}
		if len(message.GetJobs()) > 500 {
			t.Errorf("a message of %d jobs", len(message.GetJobs()))
		}
		jobs = append(jobs, message.GetJobs()...)
	}
}

func all() *pb.JobFilter { return &pb.JobFilter{AllStates: true} }

// waitState waits until a job is in a state and nothing of it is left over.
func waitState(t testing.TB, conn *grpc.ClientConn, id uint32, want pb.JobState) *pb.Job {
	t.Helper()
	var last *pb.Job
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		jobs, err := tryList(t, conn, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: id}}}})
		if status.Code(err) == codes.Unavailable {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if last = jobs[0]; last.GetState() == want && !last.GetCompleting() && !last.GetConfiguring() {
			return last
		}
	}
	t.Fatalf("job %d is not %v: %v", id, want, last)
	return nil
}

func TestJobRunsAndEnds(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", 0)
	t.Cleanup(node.connect(conn))
	id := submit(t, conn, job())
	done := waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
	if done.GetNodeList() != "n1" || done.GetEpoch() != 1 || node.begun()[id] != 1 {
		t.Fatalf("job: %v, begun %v", done, node.begun())
	}
}

// BenchmarkStart is the time from a submission to an idle controller to the
// order at the node.
func BenchmarkStart(b *testing.B) {
	server := startServer(b, configIn(shortDir(b)))
	conn := connectTo(b, server.Addresses()[0], "")
	node := newFakeNode(b, "n1", 0)
	b.Cleanup(node.connect(conn))
	for b.Loop() {
		id := submit(b, conn, job())
		for order := range node.orders {
			if order.GetStartAlloc().GetAlloc().GetJob() == id {
				break
			}
		}
		b.StopTimer()
		waitState(b, conn, id, pb.JobState_JOB_STATE_COMPLETED)
		b.StartTimer()
	}
}

func TestGangIsReleasedTogether(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	first, second := newFakeNode(t, "n1", 20*time.Millisecond), newFakeNode(t, "n2", -1)
	t.Cleanup(first.connect(conn))
	t.Cleanup(second.connect(conn))
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.MinNodes = 2 }))
	done := waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
	if first.begun()[id] != 1 || second.begun()[id] != 0 {
		t.Fatalf("begun: %v on the batch host, %v on the other node", first.begun(), second.begun())
	}
	if done.GetNodeList() != "n[1-2]" {
		t.Fatalf("node list %q", done.GetNodeList())
	}
}

func TestRestartKeepsJobs(t *testing.T) {
	config := configIn(shortDir(t))
	server := startServer(t, config)
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	disconnect := node.connect(conn)
	running := submit(t, conn, job())
	waitState(t, conn, running, pb.JobState_JOB_STATE_RUNNING)
	for range 20 {
		submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	}
	if err := server.cluster.peer.Snapshot(); err != nil {
		t.Fatal(err)
	}
	later := submit(t, conn, job(func(r *pb.SubmitRequest) {
		r.Spec.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 3, Step: 1}}}
	}))
	before := list(t, conn, all())
	disconnect()
	server.Stop()
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	server = startServer(t, config)
	conn = connectTo(t, server.Addresses()[0], "")
	after := list(t, conn, all())
	if len(after) < 22 || len(after) < len(before) {
		t.Fatalf("%d jobs before, %d after", len(before), len(after))
	}
	node.runs = 0
	t.Cleanup(node.connect(conn))
	for _, p := range node.kept() {
		node.end(p, pb.EndCause_END_CAUSE_EXITED, 0)
	}
	waitState(t, conn, running, pb.JobState_JOB_STATE_COMPLETED)
	if begun := node.begun()[running]; begun != 1 {
		t.Fatalf("the running job was begun %d times", begun)
	}
	waitState(t, conn, later, pb.JobState_JOB_STATE_COMPLETED)
	for id, begun := range node.begun() {
		if begun != 1 {
			t.Errorf("job %d was begun %d times", id, begun)
		}
	}
}

func TestOneControllerPerDirectory(t *testing.T) {
	config := configIn(shortDir(t))
	startServer(t, config)
	other := config
	other.Socket += "2"
	if _, err := Start(other, "test", slog.New(slog.DiscardHandler)); !errors.Is(err, replica.ErrLocked) {
		t.Fatalf("second controller on the directory: %v", err)
	}
	other = config
	other.DataDir += "2"
	if _, err := Start(other, "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another program answers") {
		t.Fatalf("second controller on the socket: %v", err)
	}
}

func TestRetryTakesEffectOnce(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	request := job()
	if first, second := submit(t, conn, request), submit(t, conn, request); first != second {
		t.Fatalf("two jobs: %d and %d", first, second)
	}
	if jobs := list(t, conn, all()); len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
}

func TestCancel(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	running, held := submit(t, conn, job()), submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true; r.Spec.Name = "held" }))
	waitState(t, conn, running, pb.JobState_JOB_STATE_RUNNING)
	answer, err := client.Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: running}, {Job: 999}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetResults()) != 2 || answer.GetResults()[0].GetError() != "" || answer.GetResults()[1].GetError() != "Invalid job id specified" {
		t.Fatalf("results: %v", answer.GetResults())
	}
	waitState(t, conn, running, pb.JobState_JOB_STATE_CANCELLED)
	answer, err = client.Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: running}}}})
	if err != nil || !answer.GetResults()[0].GetAlreadyDone() {
		t.Fatalf("cancel twice: %v, %v", answer, err)
	}
	if _, err := client.Cancel(soon(t), &pb.CancelRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Fatalf("cancel nothing: %v", err)
	}
	if _, err := client.Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Names: []string{"held"}}}); err != nil {
		t.Fatal(err)
	}
	waitState(t, conn, held, pb.JobState_JOB_STATE_CANCELLED)
}

func TestSignal(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	id, held := submit(t, conn, job()), submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	answer, err := client.Cancel(soon(t), &pb.CancelRequest{Signal: 10, Batch: true, Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}, {Job: held}}}})
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetResults()[0].GetError() != "" || answer.GetResults()[1].GetError() != "Job is pending execution" {
		t.Fatalf("results: %v", answer.GetResults())
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	if len(node.signals) != 1 || node.signals[0].GetSignal() != 10 || !node.signals[0].GetBatch() {
		t.Fatalf("signals: %v", node.signals)
	}
}
