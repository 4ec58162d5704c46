package relay

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

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// controller is a stand-in that remembers who vouched for what.
type controller struct {
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeLinkServer
	calls    chan metadata.MD
	opened   chan *pb.TunnelOpen
	measured chan *pb.NodeSteps
	listed   []byte // what ListJobs answers; nil = three messages
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
	if c.listed != nil {
		return stream.SendMsg(passon.Of(c.listed))
	}
	for i := range uint32(3) {
		if err := stream.Send(&pb.ListJobsResponse{Jobs: []*pb.Job{{Epoch: i}}}); err != nil {
			return err
		}
	}
	return nil
}

func (c *controller) Attach(stream grpc.BidiStreamingServer[pb.TunnelMessage, pb.TunnelMessage]) error {
	_, err := stream.Recv()
	return err
}

func (c *controller) InPieces(stream grpc.BidiStreamingServer[pb.Piece, pb.Piece]) error {
	_, err := stream.Recv()
	return err
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
		if m.GetMeasured() != nil {
			c.measured <- m.GetMeasured()
			continue
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// relayed makes the relay of an allocation whose user is the test's own, and a
// controller for it. It answers a connection to the job's socket.
func relayed(t *testing.T, uid uint32) (*Relay, *controller, *grpc.ClientConn) {
	t.Helper()
	// A long name: sockets must not depend on its length.
	base := filepath.Join(t.TempDir(), "a-state-directory-with-a-name-so-long-that-no-socket-in-it-could-be-named-by-its-path")
	dir := bundle.Dir(filepath.Join(base, "12.3"))
	must(t, os.MkdirAll(dir.Path(bundle.RunDir), 0o700))
	c := &controller{calls: make(chan metadata.MD, 9), opened: make(chan *pb.TunnelOpen, 9), measured: make(chan *pb.NodeSteps, 9)}
	socketDir, err := os.MkdirTemp("", "g")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(socketDir) })
	controllers := filepath.Join(socketDir, "s")
	listener, err := net.Listen("unix", controllers)
	must(t, err)
	server := grpc.NewServer(grpc.ForceServerCodecV2(passon.Codec{}))
	pb.RegisterControllerServer(server, c)
	pb.RegisterNodeLinkServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	r := New(Config{
		Order: &pb.StartAlloc{Alloc: &pb.AllocId{Job: 12, Epoch: 3}, Node: "n1"}, Dir: dir,
		Settings: &bundle.Settings{Controllers: []string{"unix://" + controllers}},
		UID:      uid, GID: uint32(os.Getgid()), InitUIDs: []uint32{uid}, Log: slog.New(slog.DiscardHandler), Changed: func() {},
	})
	if uid != uint32(os.Getuid()) && os.Getuid() != 0 {
		t.Skip("needs root: gives a socket to another user")
	}
	must(t, r.Serve())
	t.Cleanup(r.Close)
	conn, err := grpc.NewClient("passthrough:///job", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return socket.Dial(ctx, dir.Path(bundle.RunDir, bundle.JobSocket))
		}))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return r, c, conn
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
	response, err := client.Submit(ctx, &pb.SubmitRequest{Spec: &pb.JobSpec{Script: make([]byte, 100<<10)}})
	if err != nil || response.JobId != 100<<10 {
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
		Alloc: &pb.AllocId{Job: 99}, FromNode: "other", TargetNode: "n2", Channel: "stolen",
	}}}))
	open := <-c.opened
	if open.Alloc.GetJob() != 12 || open.Alloc.GetEpoch() != 3 || open.FromNode != "n1" || open.TargetNode != "n2" || open.Channel != "" {
		t.Errorf("opened %v", open)
	}
	must(t, stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("x")}}))
	if m, err := stream.Recv(); err != nil || string(m.GetData()) != "x" {
		t.Errorf("answer %v, %v", m, err)
	}
}

// The other end of a tunnel: process 1 speaks to whoever is behind it.
func TestJoinTunnel(t *testing.T) {
	r, c, _ := relayed(t, uint32(os.Getuid()))
	listener, err := socket.Listen(r.Dir.Path(bundle.RunDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	must(t, r.Join(deadline(t), &pb.Connect{Alloc: r.Order.Alloc, Channel: "channel", Line: "name"}))
	if open := <-c.opened; open.Channel != "channel" || open.Alloc.GetJob() != 12 || open.FromNode != "n1" {
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
}

// Before a save nothing that could be cut off is open, and until it is over nothing
// opens at either end.
func TestNoStreamWhileDisconnected(t *testing.T) {
	r, _, conn := relayed(t, uint32(os.Getuid()))
	init, err := socket.Listen(r.Dir.Path(bundle.RunDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer init.Close()
	for _, open := range []*int{&r.opened, &r.joined} {
		end, err := r.beginStream(open)
		must(t, err)
		var streams *StreamsError
		if err := r.Disconnect(deadline(t)); !errors.As(err, &streams) {
			t.Errorf("disconnected while a step stream is open: %v", err)
		}
		end()
	}
	must(t, r.Disconnect(deadline(t)))
	if _, err := pb.NewControllerClient(conn).Submit(deadline(t), &pb.SubmitRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a command calls: %v", err)
	}
	if _, err := r.beginStream(&r.opened); status.Code(err) != codes.Unavailable {
		t.Errorf("a step opens a stream: %v", err)
	}
	join := &pb.Connect{Alloc: r.Order.Alloc, Channel: "channel", Line: "name"}
	if err := r.Join(deadline(t), join); status.Code(err) != codes.Unavailable {
		t.Errorf("a step of another node comes: %v", err)
	}
	if len(r.tunnels) != 0 {
		t.Error("a place stays taken")
	}
	must(t, r.Reconnect())
	must(t, r.Join(deadline(t), join))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
