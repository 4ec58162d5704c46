package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/pieces"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const mib = 1 << 20

// asUser takes every connection for that of one user.
type asUser struct {
	*ServerCredentials
	uid uint32
}

func (a asUser) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, peerInfo{uid: a.uid, gid: a.uid, person: numbered(a.uid), conn: conn}, nil
}

func (a asUser) Clone() credentials.TransportCredentials { return a }

// door is a controller with a socket for each of some users.
type door struct {
	*Server
	sockets map[uint32]string
}

func newDoor(t *testing.T, uids ...uint32) *door {
	t.Helper()
	l := &ledger{t: t, state: state.New(), sessions: session.NewRegistry(func(string) {})}
	d := &door{NewServer(l, l, Options{Version: "test", Logger: slog.New(slog.DiscardHandler)}), map[uint32]string{}}
	rules := *policy.Default()
	rules.Rate = policy.RateLimit{Off: true}
	if result, err := l.Propose(t.Context(), state.ApplyPolicy{Policy: rules}, state.RequestID{}); err != nil || result.Refused != nil {
		t.Fatal(err, result.Refused)
	}
	for _, uid := range uids {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := d.GRPC(asUser{Credentials(nil), uid})
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		d.sockets[uid] = path
	}
	return d
}

func (d *door) client(t *testing.T, uid uint32) pb.ControllerClient {
	t.Helper()
	conn, err := dial.Dial([]string{"unix://" + d.sockets[uid]}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewControllerClient(conn)
}

func (d *door) stalled(t *testing.T, uid uint32) *prototest.Stalled {
	return prototest.NewStalled(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.sockets[uid])
	})
}

// largest is the largest submission that is accepted.
func largest() *pb.SubmitRequest {
	script := append([]byte("#!/bin/sh\n#"), bytes.Repeat([]byte("x"), spec.MaxScriptBytes-11)...)
	return &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: &pb.JobSpec{Name: "big", Script: script, WorkDirectory: "/tmp", MemoryPerCpuBytes: 1 << 20, Hold: true,
		Environment: []string{"A=" + strings.Repeat("y", spec.MaxEnvironmentBytes-100)}}}
}

func listOf(stream grpc.ServerStreamingClient[pb.ListJobsResponse], err error) (jobs []*pb.Job, _ error) {
	for err == nil {
		var message *pb.ListJobsResponse
		if message, err = stream.Recv(); err == nil {
			jobs = append(jobs, message.GetJobs()...)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return jobs, err
}

// TestInPieces: a request that is larger than a message is answered as any other.
func TestInPieces(t *testing.T) {
	d := newDoor(t, fuzzUser)
	client := d.client(t, fuzzUser)
	answer, err := client.Submit(prototest.Soon(t), largest())
	if err != nil {
		t.Fatal(err)
	}
	named := &pb.ListJobsRequest{WithScript: true, Filter: &pb.JobFilter{}}
	for range 10_000 {
		named.Filter.Users = append(named.Filter.Users, "nobody-of-this-name")
	}
	if jobs, err := listOf(client.ListJobs(prototest.Soon(t), named)); err != nil || len(jobs) != 0 {
		t.Errorf("a list by a large request: %d jobs, %v", len(jobs), err)
	}
	if jobs, err := listOf(client.ListJobs(prototest.Soon(t), &pb.ListJobsRequest{WithScript: true})); err != nil || len(jobs) != 1 || jobs[0].GetId().GetJob() != answer.GetJobId() || len(jobs[0].GetSpec().GetScript()) != spec.MaxScriptBytes {
		t.Errorf("what was accepted: %d jobs, %v", len(jobs), err)
	}
	request := largest()
	request.Spec.WorkDirectory = "not/absolute"
	if _, err := client.Submit(prototest.Soon(t), request); status.Code(err) == codes.OK || status.Code(err) == codes.Unimplemented || strings.Contains(status.Convert(err).Message(), "piece") {
		t.Errorf("a large request for too much: %v", err)
	}
	request.Spec.Environment = append(request.Spec.Environment, strings.Repeat("z", spec.MaxMessageBytes))
	if _, err := client.Submit(prototest.Soon(t), request); status.Code(err) != codes.ResourceExhausted || !strings.Contains(status.Convert(err).Message(), "large data belongs into files") {
		t.Errorf("more than a request may have: %v", err)
	}
	if held := d.large.Held(); held != 0 {
		t.Errorf("%d bytes stay counted", held)
	}
}

// TestBadPieces: what comes in pieces is what was said, of a call that may be made so.
func TestBadPieces(t *testing.T) {
	d := newDoor(t, fuzzUser)
	client := d.client(t, fuzzUser)
	submit := pb.Controller_Submit_FullMethodName
	for name, c := range map[string]struct {
		sent []*pb.Piece
		code codes.Code
	}{
		"nothing":          {nil, codes.OK},
		"no call":          {[]*pb.Piece{{Method: "/x/y", RequestBytes: 1}}, codes.Unimplemented},
		"a stream":         {[]*pb.Piece{{Method: pb.Controller_Attach_FullMethodName, RequestBytes: 1}}, codes.Unimplemented},
		"itself":           {[]*pb.Piece{{Method: pieces.Method, RequestBytes: 1}}, codes.Unimplemented},
		"a node's":         {[]*pb.Piece{{Method: pb.NodeLink_Session_FullMethodName, RequestBytes: 1}}, codes.Unimplemented},
		"too large":        {[]*pb.Piece{{Method: submit, RequestBytes: 1 << 31}}, codes.ResourceExhausted},
		"more":             {[]*pb.Piece{{Method: submit, RequestBytes: 2}, {Data: []byte("abc"), End: true}}, codes.InvalidArgument},
		"less":             {[]*pb.Piece{{Method: submit, RequestBytes: 4}, {Data: []byte("abc"), End: true}}, codes.InvalidArgument},
		"an empty piece":   {[]*pb.Piece{{Method: submit, RequestBytes: 4}, {}}, codes.InvalidArgument},
		"no message":       {[]*pb.Piece{{Method: submit, RequestBytes: 1}, {Data: []byte("\xff"), End: true}}, codes.Internal},
		"without an end":   {[]*pb.Piece{{Method: submit, RequestBytes: 2}, {Data: []byte("a")}}, codes.InvalidArgument},
		"an empty request": {[]*pb.Piece{{Method: pb.Controller_Ping_FullMethodName}, {End: true}}, codes.OK},
	} {
		stream, err := client.InPieces(prototest.Soon(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range c.sent {
			_ = stream.Send(piece)
		}
		_ = stream.CloseSend()
		for err == nil {
			_, err = stream.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		if status.Code(err) != c.code && name != "nothing" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if held := d.large.Held(); held != 0 {
		t.Errorf("%d bytes stay counted", held)
	}
}

// TestStalledUser: whatever a user begins to send and does not end, the controller holds
// little of it, and others are answered.
func TestStalledUser(t *testing.T) {
	patience := roomPatience
	roomPatience = 200 * time.Millisecond
	t.Cleanup(func() { roomPatience = patience })
	d := newDoor(t, 1, 2)
	before := prototest.Heap()
	if code := <-d.stalled(t, 1).Promise(submitting, 15*mib); code != "8" {
		t.Errorf("a message of 15 MiB ends with %q", code)
	}
	attacker := d.stalled(t, 1)
	for range 100 {
		attacker.Promise(submitting, spec.MaxPieceBytes)
	}
	sent := []proto.Message{&pb.Piece{Method: submitting, RequestBytes: 15 * mib}}
	for range 40 {
		sent = append(sent, &pb.Piece{Data: make([]byte, spec.PieceBytes)})
	}
	stuck, ended := d.stalled(t, 1), make(chan string, 6)
	for range 6 {
		said := stuck.Promise(pieces.Method, 2, sent...)
		go func() { ended <- <-said }()
	}
	for range 4 { // two have room
		select {
		case code := <-ended:
			if code != "14" {
				t.Errorf("a request without room ends with %q", code)
			}
		case <-time.After(prototest.Patience):
			t.Fatal("a request without room is not refused")
		}
	}
	if held := d.large.Held(); held != 30*mib {
		t.Errorf("%d bytes are counted", held)
	}
	held := prototest.Heap() - before
	if t.Logf("%d MiB held", held/mib); held > 110*mib {
		t.Errorf("%d MiB are held", held/mib)
	}
	if _, err := d.client(t, 2).Submit(prototest.Soon(t), largest()); err != nil {
		t.Errorf("another user meanwhile: %v", err)
	}
	stuck.Leave()
	prototest.Eventually(t, "all is given back", func() bool { return d.large.Held() == 0 })
}

// TestUnreadByUser: whatever a user asks for and does not read, the controller holds little of
// it, also when the requests are over, and answers other commands and others.
func TestUnreadByUser(t *testing.T) {
	patience := answerPatience
	answerPatience = 200 * time.Millisecond
	t.Cleanup(func() { answerPatience = patience })
	d := newDoor(t, 1, 2)
	client, other := d.client(t, 1), d.client(t, 2)
	if _, err := client.Submit(prototest.Soon(t), largest()); err != nil {
		t.Fatal(err)
	}
	withScripts := &pb.ListJobsRequest{WithScript: true, WithEnvironment: true}
	if jobs, err := listOf(client.ListJobs(prototest.Soon(t), withScripts)); err != nil || len(jobs) != 1 || len(jobs[0].GetSpec().GetScript()) != spec.MaxScriptBytes {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	before := prototest.Heap()
	attacker := d.stalled(t, 1)
	for range 100 {
		attacker.Ask(listing, withScripts)
	}
	prototest.Eventually(t, "answers are held", func() bool { return d.answers.Held() > heldAnswersPerUser-6*mib })
	held := prototest.Heap() - before
	if t.Logf("%d MiB held", held/mib); held > 6*heldAnswersPerUser { // the reader's side too; without a bound it is a hundred answers
		t.Errorf("%d MiB are held", held/mib)
	}
	if counted := d.answers.Held(); counted > heldAnswersPerUser {
		t.Errorf("%d bytes are counted", counted)
	}
	if _, err := listOf(client.ListJobs(prototest.Soon(t), withScripts)); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "try again") {
		t.Errorf("one more list: %v", err)
	}
	if _, err := client.Ping(prototest.Soon(t), &pb.PingRequest{}); err != nil {
		t.Errorf("another command: %v", err)
	}
	if _, err := listOf(other.ListJobs(prototest.Soon(t), withScripts)); err != nil {
		t.Errorf("another user: %v", err)
	}
	attacker.Leave()
	prototest.Eventually(t, "all is given back", func() bool {
		_ = prototest.Heap() // what was on connections that are gone
		return d.answers.Held() == 0
	})
}
