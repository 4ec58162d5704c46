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
	t    testing.TB
	name string
	runs time.Duration // how long a script takes; <0 = until it is told to end
	slow bool          // it never reports that an allocation is there

	mu       sync.Mutex
	stream   pb.NodeLink_SessionClient
	allocs   map[alloc]*fakeAlloc
	started  map[alloc]int // how often a script was begun, forever
	released map[alloc]bool
	signals  []*pb.SignalAlloc
	gone     map[alloc]bool // acknowledged
	sendMu   sync.Mutex
	orders   chan *pb.ControllerMessage // a copy of everything received
	boot     string
}

type alloc struct{ job, epoch uint32 }

type fakeAlloc struct {
	order *pb.StartAlloc
	ended *pb.AllocEnded
}

func newFakeNode(t testing.TB, name string, runs time.Duration) *fakeNode {
	return &fakeNode{
		t: t, name: name, runs: runs, boot: "boot-1",
		allocs: make(map[alloc]*fakeAlloc), started: make(map[alloc]int), released: make(map[alloc]bool), gone: make(map[alloc]bool),
		orders: make(chan *pb.ControllerMessage, 100_000),
	}
}

func (n *fakeNode) inventory() *pb.Inventory {
	devices := []*pb.Device{}
	for i := range uint32(4) {
		devices = append(devices, &pb.Device{Id: n.name + "-gpu" + string(rune('0'+i)), Index: i, Model: "standin", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1})
	}
	return &pb.Inventory{Cpus: 64, RealCpus: 64, MemoryBytes: 64 << 30, RealMemoryBytes: 64 << 30, BootId: n.boot, Version: "test", Devices: devices, Saving: &pb.Saving{Criu: "4.2"}}
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
	register := &pb.Register{Node: n.name, Inventory: n.inventory(), Instance: "test"}
	n.mu.Lock()
	for p := range n.allocs {
		register.Running = append(register.Running, &pb.RunningAlloc{Alloc: &pb.AllocId{Job: p.job, Epoch: p.epoch}, Ready: true})
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
	var again []*pb.AllocEnded
	for _, p := range n.allocs {
		if p.ended != nil {
			again = append(again, p.ended)
		}
	}
	n.mu.Unlock()
	for _, ended := range again {
		n.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocEnded{AllocEnded: ended}})
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

// renew renews the lease and returns when the controller has.
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
		case *pb.ControllerMessage_StartAlloc:
			n.start(what.StartAlloc)
		case *pb.ControllerMessage_ReleaseBatch:
			n.release(allocOf(what.ReleaseBatch.GetAlloc()))
		case *pb.ControllerMessage_EndAlloc:
			n.end(allocOf(what.EndAlloc.GetAlloc()), pb.EndCause_END_CAUSE_CANCELLED, 15)
		case *pb.ControllerMessage_EndedAcknowledged:
			n.mu.Lock()
			p := allocOf(what.EndedAcknowledged.GetAlloc())
			delete(n.allocs, p)
			n.gone[p] = true
			n.mu.Unlock()
		case *pb.ControllerMessage_SignalAlloc:
			n.mu.Lock()
			n.signals = append(n.signals, what.SignalAlloc)
			n.mu.Unlock()
			n.send(&pb.NodeMessage{What: &pb.NodeMessage_SignalResult{SignalResult: &pb.SignalResult{Token: what.SignalAlloc.GetToken()}}})
		}
	}
}

func allocOf(id *pb.AllocId) alloc { return alloc{id.GetJob(), id.GetEpoch()} }

func (p alloc) id() *pb.AllocId { return &pb.AllocId{Job: p.job, Epoch: p.epoch} }

func (n *fakeNode) start(order *pb.StartAlloc) {
	p := allocOf(order.GetAlloc())
	n.mu.Lock()
	if n.gone[p] {
		n.t.Errorf("node %s: ordered to start %v, whose end was acknowledged", n.name, p)
	}
	if n.allocs[p] != nil {
		n.mu.Unlock()
		return // it has it: answered, not obeyed
	}
	n.allocs[p] = &fakeAlloc{order: order}
	n.mu.Unlock()
	if n.slow {
		return
	}
	n.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocReady{AllocReady: &pb.AllocReady{Alloc: p.id()}}})
	if !order.GetGang() {
		n.begin(p)
	}
}

func (n *fakeNode) release(p alloc) {
	n.mu.Lock()
	known, before := n.allocs[p] != nil, n.released[p]
	n.released[p] = true
	n.mu.Unlock()
	if known && !before {
		n.begin(p)
	}
}

// begin is the first instruction of a script.
func (n *fakeNode) begin(p alloc) {
	n.mu.Lock()
	n.started[p]++
	n.mu.Unlock()
	if n.runs >= 0 {
		time.AfterFunc(n.runs, func() { n.end(p, pb.EndCause_END_CAUSE_EXITED, 0) })
	}
}

// end reports that an allocation is over, also of one it does not have.
func (n *fakeNode) end(p alloc, cause pb.EndCause, signal uint32) {
	ended := &pb.AllocEnded{Alloc: p.id(), Cause: cause, ExitSignal: signal, EndMs: time.Now().UnixMilli()}
	n.mu.Lock()
	known := n.allocs[p]
	switch {
	case known == nil:
		ended.Cause = pb.EndCause_END_CAUSE_UNKNOWN_ALLOC
	case known.ended != nil:
		n.mu.Unlock()
		return
	default:
		known.ended = ended
	}
	n.mu.Unlock()
	n.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocEnded{AllocEnded: ended}})
}

// kept are the allocations it has.
func (n *fakeNode) kept() []alloc {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.allocs))
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
