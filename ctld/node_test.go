package ctld

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// fakeNode is a node's daemon that runs nothing: it takes orders, remembers
// them across sessions, and reports what the test tells it to.
type fakeNode struct {
	t     testing.TB
	name  string
	runs  time.Duration // how long a script takes; <0 = until it is told to end
	older bool          // its gnoded takes no clients

	mu       sync.Mutex
	stream   pb.NodeLink_SessionClient
	parts    map[part]*fakePart
	started  map[part]int // how often a script was begun, for ever
	released map[part]bool
	signals  []*pb.SignalPart
	gone     map[part]bool // acknowledged
	sendMu   sync.Mutex
	orders   chan *pb.ControllerMessage // a copy of everything received
	boot     string
}

type part struct{ job, epoch uint32 }

type fakePart struct {
	order *pb.StartPart
	ended *pb.PartEnded
}

func newFakeNode(t testing.TB, name string, runs time.Duration) *fakeNode {
	return &fakeNode{
		t: t, name: name, runs: runs, boot: "boot-1",
		parts: make(map[part]*fakePart), started: make(map[part]int), released: make(map[part]bool), gone: make(map[part]bool),
		orders: make(chan *pb.ControllerMessage, 100_000),
	}
}

func (n *fakeNode) inventory() *pb.Inventory {
	devices := []*pb.Device{}
	for i := range uint32(4) {
		devices = append(devices, &pb.Device{Id: n.name + "-gpu" + string(rune('0'+i)), Index: i, Model: "standin", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1})
	}
	return &pb.Inventory{Cpus: 64, RealCpus: 64, MemoryBytes: 64 << 30, RealMemoryBytes: 64 << 30, BootId: n.boot, Version: "test", Devices: devices}
}

// connect begins a session and serves it until it ends, in the background. It
// answers when the controller has taken the registration.
func (n *fakeNode) connect(conn *grpc.ClientConn) (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := n.open(ctx, conn)
	if err != nil {
		cancel()
		n.t.Fatalf("node %s: %v", n.name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serve(stream)
	}()
	return func() { cancel(); <-done }
}

func (n *fakeNode) open(ctx context.Context, conn *grpc.ClientConn) (pb.NodeLink_SessionClient, error) {
	stream, err := pb.NewNodeLinkClient(conn).Session(ctx)
	if err != nil {
		return nil, err
	}
	register := &pb.Register{Node: n.name, Inventory: n.inventory(), Instance: "test", Clients: !n.older}
	n.mu.Lock()
	for p := range n.parts {
		register.Running = append(register.Running, &pb.RunningPart{Part: &pb.PartId{Job: p.job, Epoch: p.epoch}, Ready: true})
	}
	n.mu.Unlock()
	if err := stream.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: register}}); err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if first.GetRegistered() == nil {
		n.t.Errorf("node %s: first answer is %v", n.name, first)
	}
	n.mu.Lock()
	n.stream = stream
	var again []*pb.PartEnded
	for _, p := range n.parts {
		if p.ended != nil {
			again = append(again, p.ended)
		}
	}
	n.mu.Unlock()
	for _, ended := range again {
		n.send(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: ended}})
	}
	return stream, nil
}

func (n *fakeNode) send(message *pb.NodeMessage) {
	n.mu.Lock()
	stream := n.stream
	n.mu.Unlock()
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	_ = stream.Send(message) // a broken session is seen by serve
}

// renew renews the lease, and answers when the controller has.
func (n *fakeNode) renew() {
	n.t.Helper()
	sent := time.Now().UnixNano()
	n.send(&pb.NodeMessage{What: &pb.NodeMessage_RenewLease{RenewLease: &pb.RenewLease{SentBoottimeNs: sent}}})
	for {
		renewed := prototest.Receive(n.t, "the lease of "+n.name+" is renewed", n.orders).GetLeaseRenewed()
		if renewed.GetSentBoottimeNs() == sent && renewed.GetLeaseMs() > 0 {
			return
		}
	}
}

func (n *fakeNode) serve(stream pb.NodeLink_SessionClient) {
	for {
		message, err := stream.Recv()
		if err != nil {
			return
		}
		n.orders <- message
		switch what := message.GetWhat().(type) {
		case *pb.ControllerMessage_StartPart:
			n.start(what.StartPart)
		case *pb.ControllerMessage_ReleaseBatch:
			n.release(partOf(what.ReleaseBatch.GetPart()))
		case *pb.ControllerMessage_EndPart:
			n.end(partOf(what.EndPart.GetPart()), pb.EndCause_END_CAUSE_CANCELLED, 15)
		case *pb.ControllerMessage_EndedAcknowledged:
			n.mu.Lock()
			p := partOf(what.EndedAcknowledged.GetPart())
			delete(n.parts, p)
			n.gone[p] = true
			n.mu.Unlock()
		case *pb.ControllerMessage_SignalPart:
			n.mu.Lock()
			n.signals = append(n.signals, what.SignalPart)
			n.mu.Unlock()
			n.send(&pb.NodeMessage{What: &pb.NodeMessage_SignalResult{SignalResult: &pb.SignalResult{Token: what.SignalPart.GetToken()}}})
		}
	}
}

func partOf(id *pb.PartId) part { return part{id.GetJob(), id.GetEpoch()} }

func (p part) id() *pb.PartId { return &pb.PartId{Job: p.job, Epoch: p.epoch} }

func (n *fakeNode) start(order *pb.StartPart) {
	p := partOf(order.GetPart())
	n.mu.Lock()
	if n.gone[p] {
		n.t.Errorf("node %s: ordered to start %v, whose end was acknowledged", n.name, p)
	}
	if n.parts[p] != nil {
		n.mu.Unlock()
		return // it has it: answered, not obeyed
	}
	n.parts[p] = &fakePart{order: order}
	n.mu.Unlock()
	n.send(&pb.NodeMessage{What: &pb.NodeMessage_PartReady{PartReady: &pb.PartReady{Part: p.id()}}})
	if !order.GetGang() {
		n.begin(p)
	}
}

func (n *fakeNode) release(p part) {
	n.mu.Lock()
	known, before := n.parts[p] != nil, n.released[p]
	n.released[p] = true
	n.mu.Unlock()
	if known && !before {
		n.begin(p)
	}
}

// begin is the first instruction of a script.
func (n *fakeNode) begin(p part) {
	n.mu.Lock()
	n.started[p]++
	n.mu.Unlock()
	if n.runs >= 0 {
		time.AfterFunc(n.runs, func() { n.end(p, pb.EndCause_END_CAUSE_EXITED, 0) })
	}
}

// end reports that a part is over, also of one it does not have.
func (n *fakeNode) end(p part, cause pb.EndCause, signal uint32) {
	ended := &pb.PartEnded{Part: p.id(), Cause: cause, ExitSignal: signal, EndMs: time.Now().UnixMilli()}
	n.mu.Lock()
	known := n.parts[p]
	switch {
	case known == nil:
		ended.Cause = pb.EndCause_END_CAUSE_UNKNOWN_PART
	case known.ended != nil:
		n.mu.Unlock()
		return
	default:
		known.ended = ended
	}
	n.mu.Unlock()
	n.send(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: ended}})
}

// kept are the parts it has.
func (n *fakeNode) kept() []part {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.parts))
}

// begun is how often scripts were begun here, by job.
func (n *fakeNode) begun() map[uint32]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := make(map[uint32]int)
	for p, count := range n.started {
		counts[p.job] += count
	}
	return counts
}
