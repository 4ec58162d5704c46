package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const patience = prototest.Patience

// fakeShims keeps parts as a disk would: they outlive the agent.
type fakeShims struct {
	t *testing.T

	mu        sync.Mutex
	parts     map[partKey]*fakeShim
	launched  []resources
	hold      chan struct{} // when not nil, launches wait until it is closed
	launchErr error
	leaveDir  bool // a failing launch leaves a part on disk
	prepare   func(*fakeShim)
	strays    []*shim.LeftOver
}

func newFakeShims(t *testing.T) *fakeShims {
	return &fakeShims{t: t, parts: map[partKey]*fakeShim{}}
}

func (f *fakeShims) Launch(ctx context.Context, r resources, order *pb.StartPart) (supervisor, error) {
	f.mu.Lock()
	f.launched = append(f.launched, r)
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.launchErr == nil || f.leaveDir {
		f.parts[keyOf(order.Part)] = newFakeShim(f, order)
	}
	if f.launchErr != nil {
		return nil, f.launchErr
	}
	return f.parts[keyOf(order.Part)], nil
}

func (f *fakeShims) List() ([]supervisor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []supervisor
	for _, s := range f.parts {
		all = append(all, s)
	}
	return all, nil
}

func (f *fakeShims) Sweep(isPart func(string) bool) []*shim.LeftOver {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.strays
}

func (f *fakeShims) launchCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.launched)
}

// get waits for the part to be launched.
func (f *fakeShims) get(job, epoch uint32) *fakeShim {
	f.t.Helper()
	var found *fakeShim
	eventually(f.t, "the part is launched", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		found = f.parts[partKey{job, epoch}]
		return found != nil
	})
	return found
}

func (f *fakeShims) onDisk(job, epoch uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts[partKey{job, epoch}] != nil
}

// fakeShim serves the real protocol over an in-memory connection.
type fakeShim struct {
	pb.UnimplementedShimServer
	all    *fakeShims
	order  *pb.StartPart
	client pb.ShimClient

	mu                      sync.Mutex
	changed                 *sync.Cond
	events                  []*pb.ShimEvent
	alive                   bool
	result                  *pb.PartEnded
	saved                   *pb.PartSaved // on disk
	saveErr                 error
	calls                   []string
	renewals                []*pb.LeaseRenewed
	connects                []*pb.Connect
	endCode                 uint32 // exit code after End
	deaf                    bool   // to End
	stands                  bool   // as the kernel sees it
	signalErr               error
	recoverErrs, forgetErrs int // how often these still fail
}

func newFakeShim(all *fakeShims, order *pb.StartPart) *fakeShim {
	s := &fakeShim{all: all, order: order, alive: true}
	s.changed = sync.NewCond(&s.mu)
	if all.prepare != nil {
		all.prepare(s)
	}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	pb.RegisterShimServer(server, s)
	go server.Serve(listener)
	connection, err := grpc.NewClient("passthrough:shim", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		all.t.Error(err)
	}
	s.client = pb.NewShimClient(connection)
	all.t.Cleanup(func() {
		s.mu.Lock()
		s.alive = false
		s.changed.Broadcast()
		s.mu.Unlock()
		connection.Close()
		server.Stop()
	})
	return s
}

func (s *fakeShim) Order() *pb.StartPart           { return s.order }
func (s *fakeShim) Client() (pb.ShimClient, error) { return s.client, nil }

func (s *fakeShim) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

func (s *fakeShim) Stands() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stands || !s.alive, nil
}

var errNone = errors.New("no result")

func (s *fakeShim) Result() (*pb.PartEnded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil {
		return nil, errNone
	}
	return s.result, nil
}

func (s *fakeShim) Saved() *pb.PartSaved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

func (s *fakeShim) Save(context.Context, *pb.SavePart) (*pb.ShimResponse, error) {
	s.mu.Lock()
	err := s.saveErr
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.record("save")
}

func (s *fakeShim) Kill() error {
	s.kill()
	return nil
}

func (s *fakeShim) Recover(context.Context) (*pb.PartEnded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recoverErrs > 0 {
		s.recoverErrs--
		return nil, errors.New("process 4711 does not die")
	}
	s.result = &pb.PartEnded{Part: s.order.Part, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
	return s.result, nil
}

func (s *fakeShim) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgetErrs > 0 {
		s.forgetErrs--
		return errors.New("a mount is in the way")
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	delete(s.all.parts, keyOf(s.order.Part))
	return nil
}

func (s *fakeShim) event(e *pb.ShimEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.changed.Broadcast()
}

func (s *fakeShim) ready() {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.PartReady{Part: s.order.Part}}})
}

// exit ends the job by itself.
func (s *fakeShim) exit(code uint32) { s.finish(pb.EndCause_END_CAUSE_EXITED, code) }

func (s *fakeShim) finish(cause pb.EndCause, code uint32) {
	result := &pb.PartEnded{Part: s.order.Part, Cause: cause, ExitCode: code}
	s.mu.Lock()
	s.result = result
	s.mu.Unlock()
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Ended{Ended: result}})
	s.kill()
}

// kill is kill -9 of the supervisor.
func (s *fakeShim) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = false
	s.changed.Broadcast()
}

func (s *fakeShim) record(call string) (*pb.ShimResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return &pb.ShimResponse{}, nil
}

func (s *fakeShim) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *fakeShim) Watch(_ *pb.ShimWatchRequest, stream pb.Shim_WatchServer) error {
	for sent := 0; ; sent++ {
		s.mu.Lock()
		for sent >= len(s.events) && s.alive {
			s.changed.Wait()
		}
		if sent >= len(s.events) {
			s.mu.Unlock()
			return nil
		}
		event := s.events[sent]
		s.mu.Unlock()
		if err := stream.Send(event); err != nil {
			return err
		}
	}
}

func (s *fakeShim) StartBatch(context.Context, *pb.ReleaseBatch) (*pb.ShimResponse, error) {
	return s.record("start")
}

func (s *fakeShim) End(_ context.Context, order *pb.EndPart) (*pb.ShimResponse, error) {
	if s.Alive() && !s.deaf {
		s.finish(endCause(order), s.endCode)
	}
	return s.record("end")
}

func (s *fakeShim) SetLimit(_ context.Context, order *pb.SetTimeLimit) (*pb.ShimResponse, error) {
	return s.record(fmt.Sprintf("limit %d", order.TimeLimitS))
}

func (s *fakeShim) Suspend(_ context.Context, order *pb.SuspendPart) (*pb.ShimResponse, error) {
	return s.record(fmt.Sprintf("suspend %d %t", order.Number, order.Suspended))
}

func (s *fakeShim) Signal(_ context.Context, order *pb.SignalPart) (*pb.ShimResponse, error) {
	if s.signalErr != nil {
		return nil, s.signalErr
	}
	return s.record("signal")
}

func (s *fakeShim) JoinTunnel(_ context.Context, order *pb.Connect) (*pb.ShimResponse, error) {
	s.mu.Lock()
	s.connects = append(s.connects, order)
	s.mu.Unlock()
	return s.record("join")
}

func (s *fakeShim) Renew(_ context.Context, lease *pb.LeaseRenewed) (*pb.ShimResponse, error) {
	s.mu.Lock()
	s.renewals = append(s.renewals, lease)
	s.mu.Unlock()
	return s.record("renew")
}

func (s *fakeShim) lastRenewal() *pb.LeaseRenewed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.renewals) == 0 {
		return &pb.LeaseRenewed{}
	}
	return s.renewals[len(s.renewals)-1]
}

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
	return []gpu.File{{Path: "/dev/nvidiactl", ContainerPath: "/dev/nvidiactl", Major: 195, Minor: 255}}, nil
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
		config:   Config{Name: "n1", Controllers: []string{"unix://" + socket}, Address: "n1", MemoryBytes: 1 << 30},
		realCPUs: []int{0, 2, 4, 6}, memory: 2 << 30, cgroups: cgroup.Info{Version: cgroup.V1},
		bootID: "boot", source: newFakeSource(), room: &room{directory: "/"},
	}
}

// startNode starts an agent with the parts that s keeps.
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

func startOrder(job, epoch uint32) *pb.StartPart {
	return &pb.StartPart{
		Part: &pb.PartId{Job: job, Epoch: epoch}, Id: &pb.JobId{Job: job},
		Spec: &pb.JobSpec{}, Owner: &pb.Identity{Uid: 1000}, Node: "n1", BatchHost: "n1",
		Allocation: []*pb.NodeAllocation{{Node: "n0"}, {Node: "n1", CpuIds: []uint32{1, 3}}},
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	prototest.Eventually(t, what, condition)
}
