package api

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// spoken is a stream whose other end says what the input holds, and then ends
// it.
type spoken[In, Out any, PI interface {
	*In
	proto.Message
}, PO interface {
	*Out
	proto.Message
}] struct {
	grpc.ServerStream
	t        *testing.T
	ctx      context.Context
	messages [][]byte
	heard    func()
}

func (s *spoken[In, Out, PI, PO]) Context() context.Context { return s.ctx }
func (s *spoken[In, Out, PI, PO]) Send(message *Out) error {
	checkAnswer(s.t, PO(message))
	return nil
}

func (s *spoken[In, Out, PI, PO]) Recv() (*In, error) {
	if s.heard != nil {
		s.heard()
	}
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	message := PI(new(In))
	err := proto.Unmarshal(s.messages[0], message)
	s.messages = s.messages[1:]
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "no message")
	}
	return (*In)(message), nil
}

// RecvMsg and SendMsg are for who does not look into messages.
func (s *spoken[In, Out, PI, PO]) RecvMsg(message any) error {
	if len(s.messages) == 0 {
		return io.EOF
	}
	data := s.messages[0]
	s.messages = s.messages[1:]
	return passon.Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message)
}

func (s *spoken[In, Out, PI, PO]) SendMsg(message any) error {
	data, err := passon.Codec{}.Marshal(message)
	if err != nil || data.Len() > spec.MaxMessageBytes {
		s.t.Fatalf("a message of %d bytes: %v", data.Len(), err)
	}
	data.Free()
	return nil
}

type nodeStream = spoken[pb.NodeMessage, pb.ControllerMessage, *pb.NodeMessage, *pb.ControllerMessage]
type tunnelEnd = spoken[pb.TunnelMessage, pb.TunnelMessage, *pb.TunnelMessage, *pb.TunnelMessage]

func inventory() *pb.Inventory {
	return &pb.Inventory{Cpus: 64, RealCpus: 64, MemoryBytes: 1 << 38, BootId: "b", Features: []string{"fast"}, HostName: "h",
		Devices: []*pb.Device{{Id: "g0", Model: "m", Shares: 1, Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Links: []string{"g1"}}, {Id: "g1", Index: 1, Model: "m", ParentId: "g0"}}}
}

func nodeMessages() []*pb.NodeMessage {
	alloc := &pb.AllocId{Job: 1, Epoch: 1}
	return []*pb.NodeMessage{
		{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: "n0000", Inventory: inventory(), Instance: "i", Running: []*pb.RunningAlloc{{Alloc: alloc, Ready: true}, {Alloc: &pb.AllocId{Job: 4, Epoch: 9}}},
			LeftOvers: []*pb.LeftOver{{What: "/x", Error: "busy", SinceMs: math.MinInt64}}}}},
		{What: &pb.NodeMessage_RenewLease{RenewLease: &pb.RenewLease{SentBoottimeNs: math.MinInt64}}},
		{What: &pb.NodeMessage_AllocReady{AllocReady: &pb.AllocReady{Alloc: alloc}}},
		{What: &pb.NodeMessage_AllocEnded{AllocEnded: &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_EXITED, ExitCode: math.MaxUint32, Detail: "d", StartMs: -1, EndMs: math.MaxInt64,
			Usage: &pb.Usage{PeakMemoryBytes: math.MaxUint64, CpuNs: math.MaxUint64}}}},
		{What: &pb.NodeMessage_SignalResult{SignalResult: &pb.SignalResult{Token: "t", Error: "e"}}},
		{What: &pb.NodeMessage_LeftOvers{LeftOvers: &pb.LeftOvers{LeftOvers: []*pb.LeftOver{{What: "/y"}}}}},
		{What: &pb.NodeMessage_ImagesWord{ImagesWord: &pb.ImagesWord{Token: "t", Done: true}}},
		{},
	}
}

// FuzzSession: whatever a node, or who takes itself for one, says in a session
// and in whatever order, it is answered or cut off in plain words, the state
// stays sound, and what the others see of it can be sent to them.
func FuzzSession(f *testing.F) {
	base := seedState(f)
	var sound [][]byte
	for _, message := range nodeMessages() {
		sound = append(sound, prototest.Marshal(message))
	}
	kinds := make([]byte, 64)
	join := func(messages ...[]byte) []byte { return prototest.Join(kinds[:len(messages)], messages) }
	f.Add(byte(0), join(sound...))
	f.Add(byte(1), join(sound...))
	f.Add(byte(0), join(sound[0], sound[0]))
	f.Add(byte(0), join(sound[3], sound[0]))
	for i, message := range nodeMessages()[:6] {
		for _, data := range prototest.Spoiled(message) {
			if i == 0 {
				f.Add(byte(0), join(data, sound[2], sound[3]))
			} else {
				f.Add(byte(0), join(sound[0], data, data))
			}
		}
	}
	for _, data := range prototest.Hostile[pb.NodeMessage]() {
		f.Add(byte(0), join(sound[0], data))
	}
	f.Fuzz(func(t *testing.T, caller byte, data []byte) {
		s, l := newFuzzServer(t, base)
		_, messages := prototest.Split(data, 24)
		ctx, cancel := context.WithCancel(callerContext(caller, "1.1", "1000", "n0000"))
		defer cancel()
		stream := &nodeStream{t: t, ctx: ctx, messages: messages}
		checkStatus(t, s.nodes.Session(stream))
		if l.sessions.Get("n0000") != nil {
			t.Fatal("a session that has ended is kept")
		}
		l.plan()
		l.checkShown()
		sinkNodes := &sink[pb.ListNodesResponse, *pb.ListNodesResponse]{t: t, ctx: callerContext(1, "", "", "")}
		if err := s.users.ListNodes(&pb.ListNodesRequest{}, sinkNodes); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzTunnel: one end of a tunnel opens, the other joins when it was asked to,
// and both say whatever they like: no end waits forever, bytes reach the other
// end of this tunnel or nobody, and no place stays taken.
func FuzzTunnel(f *testing.F) {
	base := seedState(f)
	open := func(change func(*pb.TunnelOpen)) []byte {
		message := &pb.TunnelOpen{Alloc: &pb.AllocId{Job: 1, Epoch: 1}, FromNode: "n0000", TargetNode: "n0001"}
		change(message)
		return prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: message}})
	}
	data := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("x")}})
	half := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
	kinds := make([]byte, 8)
	join := func(messages ...[]byte) []byte { return prototest.Join(kinds[:len(messages)], messages) }
	f.Add(byte(0), join(open(func(*pb.TunnelOpen) {}), data, half), join(data, half), "n0001")
	f.Add(byte(0), join(open(func(o *pb.TunnelOpen) { o.FromNode = "n0002" }), data), join(data), "n0001")
	f.Add(byte(1), join(open(func(*pb.TunnelOpen) {})), join(), "n0001")
	f.Add(byte(0), join(open(func(o *pb.TunnelOpen) { o.TargetNode, o.Channel = "", "c" })), join(), "")
	f.Add(byte(0), join(open(func(*pb.TunnelOpen) {}), open(func(*pb.TunnelOpen) {})), join(open(func(*pb.TunnelOpen) {})), "n0000")
	f.Add(byte(0), join(data), join(half), "n0001")
	f.Fuzz(func(t *testing.T, caller byte, first, second []byte, from string) {
		from = strings.ToValidUTF8(from, "?")
		s, l := newFuzzServer(t, base)
		ctx, cancel := context.WithTimeout(callerContext(caller, "", "", ""), prototest.Patience)
		defer cancel()
		target := l.sessions.Connect(ctx, &pb.Register{Node: "n0001"}, &pb.Registered{})
		ends := make(chan error, 2)
		_, said := prototest.Split(first, 12)
		_, answered := prototest.Split(second, 12)
		go func() { ends <- s.nodes.Tunnel(&tunnelEnd{t: t, ctx: ctx, messages: said}) }()
		waiting := 1
		for waiting > 0 {
			select {
			case message := <-target.Out():
				if asked := message.GetConnect(); asked != nil {
					join := prototest.Marshal(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Alloc: asked.Alloc, FromNode: from, Channel: asked.Channel}}})
					joining, stop := context.WithCancel(ctx)
					if session.AllocOf(asked.Alloc) != (session.Alloc{Job: 1, Epoch: 1}) && l.View().Index() > 0 {
						checkHolds(t, s.nodes, asked.Alloc)
					}
					waiting++
					go func() {
						err := s.nodes.Tunnel(&tunnelEnd{t: t, ctx: joining, messages: append([][]byte{join}, answered...)})
						if from != "n0001" {
							cancel() // nobody else comes
						}
						stop()
						ends <- err
					}()
				}
			case err := <-ends:
				waiting--
				if status.Code(err) == codes.DeadlineExceeded {
					t.Fatalf("one end waits forever: %v", err)
				}
				if err != nil && ctx.Err() == nil {
					checkStatus(t, err)
				}
			}
		}
		if ctx.Err() == context.DeadlineExceeded {
			t.Fatal("an end waits for ever")
		}
		if s.tunnels.open != 0 || len(s.tunnels.waiting) != 0 || len(s.tunnels.perJob) != 0 || len(s.tunnels.perUser) != 0 {
			t.Fatalf("%d tunnels stay open", s.tunnels.open)
		}
	})
}

func checkHolds(t *testing.T, s *NodeLink, alloc *pb.AllocId) {
	t.Helper()
	if err := s.mustHold(session.AllocOf(alloc), "n0001"); err != nil {
		t.Fatalf("a node is asked to join for what it does not run: %v", err)
	}
}
