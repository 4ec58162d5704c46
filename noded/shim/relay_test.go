package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// controller is a stand-in that remembers who vouched for what.
type controller struct {
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeLinkServer
	calls  chan metadata.MD
	opened chan *pb.TunnelOpen
}

func (c *controller) saw(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.calls <- md
}

func (c *controller) Submit(ctx context.Context, r *pb.SubmitRequest) (*pb.SubmitResponse, error) {
	c.saw(ctx)
	if r.Spec.GetName() == "bad" {
		return nil, status.Error(codes.InvalidArgument, "no such partition")
	}
	return &pb.SubmitResponse{JobId: uint32(len(r.Spec.GetScript()))}, nil
}

func (c *controller) ListJobs(_ *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	for i := range uint32(3) {
		if err := stream.Send(&pb.ListJobsResponse{Jobs: []*pb.Job{{Epoch: i}}}); err != nil {
			return err
		}
	}
	return nil
}

// Tunnel answers every message with itself, until it is half closed.
func (c *controller) Tunnel(stream grpc.BidiStreamingServer[pb.TunnelMessage, pb.TunnelMessage]) error {
	c.saw(stream.Context())
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	c.opened <- first.GetOpen()
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// relayed makes a part without a container, whose user is the test's own, and
// a controller for it. It answers a connection to the job's socket.
func relayed(t *testing.T, uid uint32) (*part, *controller, *grpc.ClientConn) {
	t.Helper()
	// A long name: sockets must not depend on its length.
	base := filepath.Join(t.TempDir(), "a-state-directory-with-a-name-so-long-that-no-socket-in-it-could-be-named-by-its-path")
	dir := directory(filepath.Join(base, "12.3"))
	must(t, os.MkdirAll(dir.path(runDir), 0o700))
	c := &controller{calls: make(chan metadata.MD, 9), opened: make(chan *pb.TunnelOpen, 9)}
	socketDir, err := os.MkdirTemp("", "g")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(socketDir) })
	socket := filepath.Join(socketDir, "s")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterControllerServer(server, c)
	pb.RegisterNodeLinkServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	p := &part{
		dir: dir, settings: &Settings{Controllers: []string{"unix://" + socket}}, log: slog.New(slog.DiscardHandler),
		order: &pb.StartPart{Part: &pb.PartId{Job: 12, Epoch: 3}, Node: "n1"},
		user:  container.User{UID: uid, GID: uint32(os.Getgid())}, changed: make(chan struct{}),
	}
	p.relay = newRelay(p)
	if uid != uint32(os.Getuid()) && os.Getuid() != 0 {
		t.Skip("needs root: gives a socket to another user")
	}
	must(t, p.serveJob())
	t.Cleanup(p.closeJobSockets)
	conn, err := grpc.NewClient("passthrough:///job", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialSocket(ctx, dir.path(runDir, jobSocket))
		}))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return p, c, conn
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	return prototest.Soon(t)
}

func TestRelay(t *testing.T) {
	_, c, conn := relayed(t, uint32(os.Getuid()))
	client := pb.NewControllerClient(conn)
	// What the caller claims about itself is not passed on.
	ctx := metadata.AppendToOutgoingContext(deadline(t), jobKey, "99.1", "other", "x")
	response, err := client.Submit(ctx, &pb.SubmitRequest{Spec: &pb.JobSpec{Script: make([]byte, 3<<20)}})
	if err != nil || response.JobId != 3<<20 {
		t.Errorf("Submit: %v, %v", response, err)
	}
	md := <-c.calls
	for key, want := range map[string]string{jobKey: "12.3", uidKey: fmt.Sprint(os.Getuid()), nodeKey: "n1"} {
		if got := md.Get(key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if len(md.Get("other")) > 0 {
		t.Error("the caller's metadata was passed on")
	}
	_, err = client.Submit(ctx, &pb.SubmitRequest{Spec: &pb.JobSpec{Name: "bad"}})
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "no such partition" {
		t.Errorf("an error came as %v", err)
	}
	stream, err := client.ListJobs(ctx, &pb.ListJobsRequest{})
	must(t, err)
	for i := range uint32(3) {
		m, err := stream.Recv()
		if err != nil || m.Jobs[0].Epoch != i {
			t.Fatalf("message %d: %v, %v", i, m, err)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	// Nothing else can be reached: neither a node's own calls nor a shim's.
	session, err := pb.NewNodeLinkClient(conn).Session(ctx)
	if err == nil {
		_, err = session.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("Session: %v", err)
	}
}

func TestRelayRefusesOthers(t *testing.T) {
	_, _, conn := relayed(t, 4242)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := pb.NewControllerClient(conn).Ping(ctx, &pb.PingRequest{}); err == nil || status.Code(err) == codes.Unimplemented {
		t.Errorf("another user was let in: %v", err)
	}
}

func TestRelayTunnel(t *testing.T) {
	_, c, conn := relayed(t, uint32(os.Getuid()))
	stream, err := pb.NewNodeLinkClient(conn).Tunnel(deadline(t))
	must(t, err)
	must(t, stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{
		Part: &pb.PartId{Job: 99}, FromNode: "other", TargetNode: "n2", Channel: "stolen",
	}}}))
	open := <-c.opened
	if open.Part.GetJob() != 12 || open.Part.GetEpoch() != 3 || open.FromNode != "n1" || open.TargetNode != "n2" || open.Channel != "" {
		t.Errorf("opened %v", open)
	}
	must(t, stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("x")}}))
	if m, err := stream.Recv(); err != nil || string(m.GetData()) != "x" {
		t.Errorf("answer %v, %v", m, err)
	}
}

// The other end of a tunnel: process 1 speaks to whoever is behind it.
func TestJoinTunnel(t *testing.T) {
	p, c, _ := relayed(t, uint32(os.Getuid()))
	listener, err := listen(p.dir.path(runDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	must(t, p.joinTunnel(deadline(t), &pb.Connect{Part: p.order.Part, Channel: "channel", Line: "line"}))
	if open := <-c.opened; open.Channel != "channel" || open.Part.GetJob() != 12 || open.FromNode != "n1" {
		t.Errorf("opened %v", open)
	}
	conn, err := listener.Accept()
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(prototest.Patience)))
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !slices.Equal(got, sent) {
		t.Errorf("echo: %v, equal %v", err, slices.Equal(got, sent))
	}
	must(t, conn.(*net.UnixConn).CloseWrite())
	if n, err := conn.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after half close: %d, %v", n, err)
	}
	if err := p.joinTunnel(deadline(t), &pb.Connect{Part: &pb.PartId{Job: 1}}); status.Code(err) != codes.NotFound {
		t.Errorf("a tunnel to another part: %v", err)
	}
}
