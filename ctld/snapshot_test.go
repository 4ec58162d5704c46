package ctld

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// save takes a backup.
func save(t *testing.T, conn *grpc.ClientConn) []*pb.SnapshotChunk {
	t.Helper()
	stream, err := pb.NewControllerClient(conn).SaveSnapshot(soon(t), &pb.SaveSnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var chunks []*pb.SnapshotChunk
	var checker snapshotfile.Checker
	for checker.Finish() != nil {
		chunk, err := stream.Recv()
		if err == nil {
			err = checker.Take(chunk)
		}
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// putBack restores one, of which only some may be sent.
func putBack(t *testing.T, conn *grpc.ClientConn, chunks []*pb.SnapshotChunk) (*pb.RestoreSnapshotResponse, error) {
	t.Helper()
	stream, err := pb.NewControllerClient(conn).RestoreSnapshot(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, chunk := range chunks {
		if stream.Send(chunk) != nil {
			break // CloseAndRecv says why
		}
	}
	return stream.CloseAndRecv()
}

func waitRunning(t *testing.T, conn *grpc.ClientConn, id uint32) *pb.Job {
	t.Helper()
	return waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
}

// TestSaveAndRestore: what was running at the backup continues, what began later
// is ended, numbers continue far ahead, and nothing starts before the node speaks.
func TestSaveAndRestore(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	disconnect := node.connect(conn)
	exclusive := func(r *pb.SubmitRequest) { r.Spec.CpusPerTask = 32 }
	kept := submit(t, conn, job())
	waitRunning(t, conn, kept)
	waiting := submit(t, conn, job(exclusive, func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	request := job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })
	asked := submit(t, conn, request)
	chunks := save(t, conn)
	header := chunks[0].GetHeader()
	if header.GetJobsWaiting() != 2 || header.GetJobsRunning() != 1 || header.GetNodes() != 1 || !slices.Equal(header.GetPeers(), []string{"c1"}) {
		t.Fatalf("header %v", header)
	}
	if _, err := pb.NewControllerClient(conn).Control(soon(t), &pb.ControlRequest{
		Verb: pb.ControlVerb_CONTROL_VERB_RELEASE, Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: waiting}}}}); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, conn, waiting)
	later := submit(t, conn, job())
	waitRunning(t, conn, later)

	answer, err := putBack(t, conn, chunks)
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetNextJobId() < later+100_000 || !slices.Equal(answer.GetAwaited(), []string{"n1"}) {
		t.Fatalf("answer %v", answer)
	}
	disconnect()
	fresh := submitSoon(t, conn, job())
	if fresh != answer.GetNextJobId() {
		t.Fatalf("the next job is %d, and should be %d", fresh, answer.GetNextJobId())
	}
	if again := submit(t, conn, request); again != asked {
		t.Fatalf("a request carried out before the backup made job %d, and %d when asked again", asked, again)
	}
	waitFor(t, conn, fresh, func(job *pb.Job) bool { return strings.Contains(job.GetReasonDetail(), "after a restore") })
	config, err := pb.NewControllerClient(conn).ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil || !slices.ContainsFunc(config.GetEntries(), func(e *pb.ConfigEntry) bool { return e.GetKey() == "AwaitedNodes" && e.GetValue() == "n1" }) {
		t.Fatalf("config: %v, %v", config.GetEntries(), err)
	}

	t.Cleanup(node.connect(conn))
	waitRunning(t, conn, fresh)
	if job := waitRunning(t, conn, kept); job.GetEpoch() != 1 {
		t.Fatalf("the job that ran continues as epoch %d", job.GetEpoch())
	}
	begun := node.begun()
	if begun[kept] != 1 || begun[fresh] != 1 {
		t.Fatalf("begun: %v", begun)
	}
	for _, p := range node.kept() {
		if p.job == later || p.job == waiting {
			t.Fatalf("run %v, which the backup does not know, is still there", p)
		}
	}
}

// TestRestoreRefused: what is not whole changes nothing.
func TestRestoreRefused(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	chunks := save(t, conn)
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	header, recorded, state, sum := chunks[0], chunks[1], chunks[2], chunks[len(chunks)-1]
	flipped := proto.Clone(state).(*pb.SnapshotChunk)
	flipped.GetData()[len(flipped.GetData())/2] ^= 1
	for name, sent := range map[string][]*pb.SnapshotChunk{
		"nothing": nil, "a header": {header}, "no checksum": {header, recorded, state}, "no header": {recorded, state, sum}, "no state": {header, recorded, sum},
		"a flipped bit": {header, recorded, flipped, sum}, "two headers": {header, header, recorded, state, sum}, "more": {header, recorded, state, sum, state},
	} {
		if _, err := putBack(t, conn, sent); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Whole, but no state: something else, or a recording alone.
	var other []*pb.SnapshotChunk
	if err := snapshotfile.Send(header.GetHeader(), func(func(*pb.Recording) bool) {}, func(w io.Writer) error { _, err := io.WriteString(w, "not a state"); return err }, func(chunk *pb.SnapshotChunk) error { other = append(other, chunk); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := putBack(t, conn, other); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no state: %v", err)
	}
	other = nil
	if err := snapshotfile.Send(header.GetHeader(), func(yield func(*pb.Recording) bool) { yield(&pb.Recording{TimeS: 1}) }, nil, func(chunk *pb.SnapshotChunk) error { other = append(other, chunk); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := putBack(t, conn, other); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a recording alone: %v", err)
	}
	if jobs := list(t, conn, all()); len(jobs) != 1 || jobs[0].GetId().GetJob() != id {
		t.Fatalf("jobs: %v", jobs)
	}
}

// submitSoon submits as clients do: again, while no controller leads.
func submitSoon(t *testing.T, conn *grpc.ClientConn, request *pb.SubmitRequest) uint32 {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		answer, err := pb.NewControllerClient(conn).Submit(soon(t), request)
		if err == nil {
			return answer.GetJobId()
		}
		if status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// waitFor waits until a job is as it should be.
func waitFor(t *testing.T, conn *grpc.ClientConn, id uint32, right func(*pb.Job) bool) {
	t.Helper()
	var last *pb.Job
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if last = list(t, conn, &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: id}}})[0]; right(last) {
			return
		}
	}
	t.Fatalf("job %d is %v", id, last)
}

// TestRestoreOnThree: every controller has the state that was put back, also one
// that was down then; and it is asked for through one that follows.
func TestRestoreOnThree(t *testing.T) {
	c := startCluster(t, 3)
	held := func(r *pb.SubmitRequest) { r.Spec.Hold = true }
	kept := c.submit("c1", job(held))
	follower := c.other(c.leader())
	chunks := save(t, c.conns[follower])
	for range 20 {
		c.submit("c2", job(held))
	}
	down := ""
	for _, name := range c.names() {
		if name != follower && name != c.leader() {
			down = name
		}
	}
	c.stop(down)
	var answer *pb.RestoreSnapshotResponse
	c.retry("restore", func(context.Context) (err error) {
		answer, err = putBack(t, c.conns[follower], chunks)
		return err
	})
	c.start(down)
	next := c.submit(follower, job(held))
	if next != answer.GetNextJobId() {
		t.Fatalf("job %d, and it should be %d", next, answer.GetNextJobId())
	}
	same := func() bool {
		for _, name := range c.names() {
			view := c.servers[name].cluster.View()
			if _, has := view.Job(kept); !has || view.Counts().Jobs != 2 || view.NextJob() != next+1 {
				return false
			}
		}
		return true
	}
	c.eventually("all have the state", same)
	c.stop(c.leader())
	c.submit(c.names()[0], job(held))
	if jobs := c.list(c.names()[1]); len(jobs) != 3 {
		t.Fatalf("%d jobs after the leader is gone", len(jobs))
	}
}
