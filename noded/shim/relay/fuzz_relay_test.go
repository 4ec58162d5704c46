package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// overheard is a controller that takes any call, and notes what comes.
type overheard struct {
	mu      sync.Mutex
	methods []string
	vouched []metadata.MD
	first   [][]byte
}

func (o *overheard) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	m := new(passon.Message)
	err := stream.RecvMsg(m)
	o.mu.Lock()
	o.methods, o.vouched, o.first = append(o.methods, method), append(o.vouched, md), append(o.first, m.Bytes())
	o.mu.Unlock()
	for err == nil {
		if err = stream.SendMsg(m); err == nil {
			m = new(passon.Message)
			err = stream.RecvMsg(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func bufServer(f *testing.F, handler grpc.StreamHandler) *grpc.ClientConn {
	listener := bufconn.Listen(1 << 16)
	serveRaw(f, listener, handler)
	conn, err := grpc.NewClient("passthrough:buf", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	return conn
}

func serveRaw(f *testing.F, listener net.Listener, handler grpc.StreamHandler) {
	server := grpc.NewServer(grpc.ForceServerCodecV2(passon.Codec{}), grpc.UnknownServiceHandler(handler))
	go func() { _ = server.Serve(listener) }()
	f.Cleanup(server.Stop)
}

// FuzzRelay: whatever a job calls through the socket in its container, with
// whatever metadata, a controller hears of requests and tunnels only, each
// vouched for as this job's and no other's.
func FuzzRelay(f *testing.F) {
	heard := &overheard{}
	order := &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: 12, Epoch: 1}, Owner: &pb.Identity{Uid: 1000}, Node: "n1",
		Allocation: []*pb.NodeAllocation{{Node: "n0"}, {Node: "n1"}},
	}
	open, join := openLimit, joinLimit
	openLimit, joinLimit = 0, 100*time.Millisecond // what listens joins nothing
	f.Cleanup(func() { openLimit, joinLimit = open, join })
	socket := filepath.Join(f.TempDir(), "c")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		f.Fatal(err)
	}
	serveRaw(f, listener, heard.handle)
	r := New(Config{
		Order: order, Settings: &bundle.Settings{Controllers: []string{"unix://" + socket}}, UID: order.Owner.Uid,
		Log: slog.New(slog.DiscardHandler), Changed: func() {},
	})
	f.Cleanup(r.Close)
	job := bufServer(f, func(server any, stream grpc.ServerStream) error { return r.handle(server, stream) })
	opening := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Alloc: &pb.AllocId{Job: 1}, FromNode: "x", TargetNode: "n0"}}})
	for _, method := range []string{
		pb.Controller_Submit_FullMethodName, pb.NodeLink_Tunnel_FullMethodName, pb.NodeLink_Session_FullMethodName, pb.Shim_End_FullMethodName,
		"/gleaner.v1.Controller/../NodeLink/Session", "/gleaner.v1.Controller/", "/", "/x/y",
	} {
		f.Add(method, jobKey, "1.1", prototest.Join([]byte{0, 0}, [][]byte{opening, []byte("x")}))
		f.Add(method, "gleaner-uid", "0", []byte{})
	}
	f.Fuzz(func(t *testing.T, method, key, value string, data []byte) {
		if !strings.HasPrefix(method, "/") || strings.ContainsFunc(method+value, func(r rune) bool { return r <= ' ' || r > '~' }) || !strings.HasPrefix(key, "gleaner-") ||
			strings.HasSuffix(key, "-bin") || strings.ContainsFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) {
			return // gRPC does not send such
		}
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), key, value), prototest.Patience)
		defer cancel()
		stream, err := job.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodecV2(passon.Codec{}))
		if err != nil {
			return
		}
		_, messages := prototest.Split(data, 4)
		for _, message := range messages {
			if stream.SendMsg(passon.Of(message)) != nil {
				break
			}
		}
		_ = stream.CloseSend()
		for err == nil {
			err = stream.RecvMsg(new(passon.Message))
		}
		if status.Code(err) == codes.DeadlineExceeded {
			t.Fatalf("%s does not end", method)
		}
		heard.mu.Lock()
		defer heard.mu.Unlock()
		for i, called := range heard.methods {
			if called != pb.NodeLink_Tunnel_FullMethodName && !strings.HasPrefix(called, controllerPrefix) {
				t.Fatalf("a job calls %s", called)
			}
			md := heard.vouched[i]
			if !slices.Equal(md.Get(jobKey), []string{"12.1"}) || !slices.Equal(md.Get(uidKey), []string{"1000"}) || !slices.Equal(md.Get(nodeKey), []string{"n1"}) {
				t.Fatalf("%s is vouched for as %v", called, md)
			}
			if called == pb.NodeLink_Tunnel_FullMethodName && heard.first[i] != nil {
				checkOpened(t, heard.first[i:i+1], nil)
			}
		}
		heard.methods, heard.vouched, heard.first = nil, nil, nil
	})
}

// carried is one end of a relayed tunnel.
type carried struct {
	grpc.ClientStream
	grpc.ServerStream
	first []byte
	sent  [][]byte
}

func (c *carried) Context() context.Context { return context.Background() }

func (c *carried) RecvMsg(m any) error {
	if c.first == nil {
		return io.EOF
	}
	*m.(*passon.Message), c.first = *passon.Of(c.first), nil
	return nil
}

func (c *carried) SendMsg(m any) error {
	c.sent = append(c.sent, m.(*passon.Message).Bytes())
	return nil
}

type incomingEnd struct{ *carried }

func (i incomingEnd) Context() context.Context { return i.carried.Context() }

func (i incomingEnd) RecvMsg(m any) error { return i.carried.RecvMsg(m) }

func (i incomingEnd) SendMsg(m any) error { return i.carried.SendMsg(m) }

func checkOpened(t *testing.T, sent [][]byte, err error) {
	t.Helper()
	if (err == nil) != (len(sent) == 1) {
		t.Fatalf("%d messages are passed on, %v", len(sent), err)
	}
	for _, data := range sent {
		m := &pb.TunnelMessage{}
		must(t, proto.Unmarshal(data, m))
		if open := m.GetOpen(); open.GetFromNode() != "n1" || bundle.ID(open.GetAlloc()) != "12.1" || open.GetTargetNode() == "" || open.GetChannel() != "" {
			t.Fatalf("a job opens the tunnel %v", open)
		}
	}
}

// FuzzJoin: whatever the daemon asks to be joined, and whatever a job opens a tunnel
// with, the answer is a refusal in words, and no place stays taken.
func FuzzJoin(f *testing.F) {
	r := New(Config{
		Order: &pb.StartAlloc{Alloc: &pb.AllocId{Job: 12, Epoch: 1}, Node: "n1"}, Dir: bundle.Dir(f.TempDir()), InitUIDs: []uint32{1000},
		Settings: &bundle.Settings{Controllers: []string{"unix:///nowhere/c"}}, Log: slog.New(slog.DiscardHandler), Changed: func() {},
	})
	f.Cleanup(r.Close)
	open := &pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Alloc: &pb.AllocId{Job: 99}, FromNode: "x", TargetNode: "n0", Channel: "steal"}}}
	for _, seed := range [][]byte{
		prototest.Marshal(&pb.Connect{Channel: "c", Line: "s", Controller: "unix:///nowhere/x"}),
		prototest.Marshal(&pb.Connect{Channel: "c", Line: "s", Again: true}), prototest.Marshal(&pb.Connect{Client: true}), prototest.Marshal(open),
	} {
		f.Add(seed)
	}
	for _, data := range prototest.Spoiled(open) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if target, err := targetOf(incomingEnd{&carried{first: append([]byte{}, data...)}}); (err == nil) != (target != "") {
			t.Fatalf("target %q, %v", target, err)
		}
		request := new(pb.Connect)
		if proto.Unmarshal(data, request) != nil {
			return
		}
		if s, ok := status.FromError(r.Join(t.Context(), request)); !ok || s.Code() != codes.OK && s.Message() == "" || s.Code() == codes.Unknown {
			t.Fatalf("not a refusal: %v", s)
		}
		if len(r.calls) != 0 || len(r.tunnels) != 0 || r.OpenStreams() != nil {
			t.Fatal("a place stays taken")
		}
	})
}
