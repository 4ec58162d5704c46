package noded

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const patience = prototest.Patience

// node is an agent under test.
type node struct {
	t      *testing.T
	agent  *agent
	stop   func()
	socket string
}

// fakeSource is a list of GPUs that a test may change.
type fakeSource struct {
	mu      sync.Mutex
	devices []gpu.Device
	err     error
}

func (f *fakeSource) Devices() ([]gpu.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]gpu.Device(nil), f.devices...), f.err
}

func (f *fakeSource) Companions() ([]gpu.File, []string) {
	return []gpu.File{{Path: "/dev/nvidiactl", ContainerPath: "/dev/nvidiactl", Companion: true, Major: 195, Minor: 255}}, nil
}

func (f *fakeSource) Close() error { return nil }

func newFakeSource() *fakeSource {
	return &fakeSource{devices: []gpu.Device{
		{ID: "g0", Index: 0, Model: "standin", File: gpu.File{Path: "/dev/g0", ContainerPath: "/dev/g0", Major: 7, Minor: 1}},
		{ID: "g1", Index: 1, Model: "standin", File: gpu.File{Path: "/dev/g1", ContainerPath: "/dev/g1", Major: 7, Minor: 2}},
	}}
}

func testMachine(socket string) *machine {
	return &machine{
		selfTest: newSelfTest(),
		config:   Config{Name: "n1", Controllers: []string{"unix://" + socket}, Address: "n1", MemoryBytes: 1 << 30},
		realCPUs: []int{0, 2, 4, 6}, memory: 2 << 30, cgroups: cgroup.Info{Version: cgroup.V1},
		bootID: "boot", source: newFakeSource(), room: &room{directory: "/"},
	}
}

// startNode starts an agent with the allocations that s keeps.
func startNode(t *testing.T, socket string, s *fakeShims, change ...func(*machine)) *node {
	t.Helper()
	m := testMachine(socket)
	for _, f := range change {
		f(m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := newAgent(m, s, "instance", slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})))
	a.adopt(ctx)
	done := make(chan struct{})
	go func() { defer close(done); a.serve(ctx) }()
	n := &node{t: t, agent: a, socket: socket, stop: func() {
		cancel()
		prototest.Receive(t, "the agent stops", done)
	}}
	t.Cleanup(n.stop)
	return n
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// setUp starts a controller and a node that has registered with it.
func setUp(t *testing.T, change ...func(*machine)) (*fakeController, *fakeSession, *fakeShims, *node) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "c.sock")
	controller := startController(t, socket)
	shims := newFakeShims(t)
	n := startNode(t, socket, shims, change...)
	return controller, controller.next(), shims, n
}

func startOrder(job, epoch uint32) *pb.StartAlloc {
	return &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: job, Epoch: epoch}, Id: &pb.JobId{Job: job},
		Spec: &pb.JobSpec{}, Owner: &pb.Identity{Uid: 1000}, Node: "n1", BatchHost: "n1",
		Allocation: []*pb.NodeAllocation{{Node: "n0"}, {Node: "n1", CpuIds: []uint32{1, 3}}},
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	prototest.Eventually(t, what, condition)
}
