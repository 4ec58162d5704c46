package noded

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// fakeController is a controller of which the test plays the mind.
type fakeController struct {
	pb.UnimplementedNodeLinkServer
	t        *testing.T
	server   *grpc.Server
	sessions chan *fakeSession
	tunnels  chan *fakeTunnel
}

type fakeSession struct {
	t        *testing.T
	stream   pb.NodeLink_SessionServer
	register *pb.Register
	received chan *pb.NodeMessage
	closed   chan struct{}
}

func startController(t *testing.T, socket string) *fakeController {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeController{t: t, server: grpc.NewServer(grpc.ForceServerCodecV2(passon.Codec{})), sessions: make(chan *fakeSession, 16), tunnels: make(chan *fakeTunnel, 16)}
	pb.RegisterNodeLinkServer(c.server, c)
	go c.server.Serve(listener)
	t.Cleanup(c.server.Stop)
	return c
}

func (c *fakeController) Session(stream pb.NodeLink_SessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &fakeSession{
		t: c.t, stream: stream, register: first.GetRegister(),
		received: make(chan *pb.NodeMessage, 10000), closed: make(chan struct{}),
	}
	c.sessions <- s
	for {
		m, err := stream.Recv()
		if err != nil {
			close(s.received)
			return err
		}
		s.received <- m
	}
}

// next waits for a node to register, and answers it.
func (c *fakeController) next() *fakeSession {
	c.t.Helper()
	s := prototest.Receive(c.t, "a node registers", c.sessions)
	s.send(registered(s.register))
	return s
}

func registered(register *pb.Register) *pb.ControllerMessage {
	return &pb.ControllerMessage{What: &pb.ControllerMessage_Registered{Registered: &pb.Registered{
		ClusterName: "test", LeaseMs: 3600_000, RenewEveryMs: 3600_000, SentBoottimeNs: register.SentBoottimeNs,
	}}}
}

func (s *fakeSession) send(m *pb.ControllerMessage) {
	s.t.Helper()
	if err := s.stream.Send(m); err != nil {
		s.t.Errorf("send to the node: %v", err)
	}
}

func (s *fakeSession) start(order *pb.StartAlloc) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_StartAlloc{StartAlloc: order}})
}

func (s *fakeSession) end(alloc *pb.AllocId) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_EndAlloc{EndAlloc: &pb.EndAlloc{Alloc: alloc}}})
}

func (s *fakeSession) release(alloc *pb.AllocId) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: &pb.ReleaseBatch{Alloc: alloc}}})
}

func (s *fakeSession) acknowledge(alloc *pb.AllocId) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_EndedAcknowledged{
		EndedAcknowledged: &pb.EndedAcknowledged{Alloc: alloc},
	}})
}

// expect waits for the next message of a kind, passing over others.
func expect[T any](s *fakeSession, what string, pick func(*pb.NodeMessage) *T) *T {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case m, ok := <-s.received:
			if !ok {
				s.t.Fatalf("the session ended before %s", what)
			}
			if found := pick(m); found != nil {
				return found
			}
		case <-deadline:
			s.t.Fatalf("no %s", what)
		}
	}
}

func (s *fakeSession) ready() *pb.AllocReady {
	s.t.Helper()
	return expect(s, "AllocReady", (*pb.NodeMessage).GetAllocReady)
}

func (s *fakeSession) ended() *pb.AllocEnded {
	s.t.Helper()
	return expect(s, "AllocEnded", (*pb.NodeMessage).GetAllocEnded)
}

func (s *fakeSession) waitClosed() {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, ok := <-s.received:
			if !ok {
				return
			}
		case <-deadline:
			s.t.Fatal("the session did not end")
		}
	}
}
