package dial

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// peer is a controller that pings as it is told, and whose followers hear
// nothing until they are let go.
type peer struct {
	pb.UnimplementedControllerServer
	name    string
	err     error
	hang    bool
	release chan struct{}
}

func (p *peer) Ping(ctx context.Context, _ *pb.PingRequest) (*pb.PingResponse, error) {
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.PingResponse{Peer: p.name}, p.err
}

func (p *peer) Follow(_ *pb.FollowRequest, stream grpc.ServerStreamingServer[pb.Event]) error {
	if err := stream.Send(&pb.Event{Index: 1}); err != nil {
		return err
	}
	<-p.release
	return stream.Send(&pb.Event{Index: 2})
}

func (p *peer) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), p.name)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterControllerServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + path
}

func TestControllersLeave(t *testing.T) {
	first := &peer{name: "c1", release: make(chan struct{})}
	second := &peer{name: "c2"}
	controllers, err := Open([]string{first.serve(t), second.serve(t)}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = controllers.Close() })
	client := pb.NewControllerClient(controllers)
	limit := prototest.Patience
	ping := func() (string, codes.Code) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		answer, err := client.Ping(ctx, &pb.PingRequest{})
		return answer.GetPeer(), status.Code(err)
	}
	answered := func(want string) {
		t.Helper()
		if name, code := ping(); name != want || code != codes.OK {
			t.Fatalf("%s answers, %v; want %s", name, code, want)
		}
	}
	answered("c1")
	answered("c1") // it stays with who serves it
	events, err := client.Follow(t.Context(), &pb.FollowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := events.Recv(); err != nil {
		t.Fatal(err)
	}
	first.err = status.Error(codes.Unavailable, "no controller leads yet")
	if _, code := ping(); code != codes.Unavailable {
		t.Fatalf("answered with %v", code)
	}
	answered("c2")
	// What was under way where it was left resumes there.
	close(first.release)
	if event, err := events.Recv(); err != nil || event.Index != 2 {
		t.Fatalf("the stream gave %v, %v", event, err)
	}
	// One that hangs is left too, and one that refuses is not.
	first.err, second.hang = nil, true
	limit = 300 * time.Millisecond
	if _, code := ping(); code != codes.DeadlineExceeded {
		t.Fatalf("answered with %v", code)
	}
	limit = prototest.Patience
	answered("c1")
	first.err = status.Error(codes.InvalidArgument, "no")
	if _, code := ping(); code != codes.InvalidArgument {
		t.Fatalf("answered with %v", code)
	}
	first.err = nil
	answered("c1")
}
