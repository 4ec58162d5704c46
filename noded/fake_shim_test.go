package noded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fakeShim serves the real protocol over an in-memory connection.
type fakeShim struct {
	pb.UnimplementedShimServer
	all    *fakeShims
	order  *pb.StartAlloc
	client pb.ShimClient

	mu                      sync.Mutex
	changed                 *sync.Cond
	events                  []*pb.ShimEvent
	alive                   bool
	result                  *pb.AllocEnded
	saved                   *pb.AllocSaved // on disk
	saveErr                 error
	calls                   []string
	renewals                []*pb.LeaseRenewed
	connects                []*pb.Connect
	endCode                 uint32 // exit code after End
	deaf                    bool   // to End
	frozen                  bool   // as the kernel sees it
	signalErr               error
	startErr                error // while the lease is not longer than an hour
	recoverErrs, forgetErrs int   // how often these still fail
}

func newFakeShim(all *fakeShims, order *pb.StartAlloc) *fakeShim {
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

func (s *fakeShim) Order() *pb.StartAlloc          { return s.order }
func (s *fakeShim) Client() (pb.ShimClient, error) { return s.client, nil }

func (s *fakeShim) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

func (s *fakeShim) Frozen() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen || !s.alive, nil
}

var errNone = errors.New("no result")

func (s *fakeShim) Result() (*pb.AllocEnded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil {
		return nil, errNone
	}
	return s.result, nil
}

func (s *fakeShim) Saved() *pb.AllocSaved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

func (s *fakeShim) Save(context.Context, *pb.SaveAlloc) (*pb.ShimResponse, error) {
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

func (s *fakeShim) Recover(context.Context) (*pb.AllocEnded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recoverErrs > 0 {
		s.recoverErrs--
		return nil, errors.New("process 4711 does not die")
	}
	s.result = &pb.AllocEnded{Alloc: s.order.Alloc, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
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
	delete(s.all.allocs, registry.KeyOf(s.order.Alloc))
	return nil
}

func (s *fakeShim) event(e *pb.ShimEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.changed.Broadcast()
}

func (s *fakeShim) ready() {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.AllocReady{Alloc: s.order.Alloc}}})
}

// exit ends the job by itself.
func (s *fakeShim) exit(code uint32) { s.finish(pb.EndCause_END_CAUSE_EXITED, code) }

func (s *fakeShim) finish(cause pb.EndCause, code uint32) {
	result := &pb.AllocEnded{Alloc: s.order.Alloc, Cause: cause, ExitCode: code}
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
	if s.startErr != nil && time.Duration(s.lastRenewal().GetLeaseMs())*time.Millisecond <= time.Hour {
		_, _ = s.record("start refused")
		return nil, s.startErr
	}
	return s.record("start")
}

func (s *fakeShim) End(_ context.Context, order *pb.EndAlloc) (*pb.ShimResponse, error) {
	if s.Alive() && !s.deaf {
		s.finish(registry.EndCause(order), s.endCode)
	}
	return s.record("end")
}

func (s *fakeShim) SetLimit(_ context.Context, order *pb.SetTimeLimit) (*pb.ShimResponse, error) {
	return s.record(fmt.Sprintf("limit %d", order.TimeLimitS))
}

func (s *fakeShim) Suspend(_ context.Context, order *pb.SuspendAlloc) (*pb.ShimResponse, error) {
	said := fmt.Sprintf("suspend %d %t", order.Number, order.Suspended)
	if order.Park {
		said += fmt.Sprintf(" park within %t", order.WithinMs > 0)
	}
	return s.record(said)
}

func (s *fakeShim) Hold(_ context.Context, hold *pb.HoldAlloc) (*pb.ShimResponse, error) {
	return s.record(fmt.Sprintf("hold %t within %t kill %t", hold.Held, hold.WithinMs > 0, hold.Kill))
}

func (s *fakeShim) Signal(_ context.Context, order *pb.SignalAlloc) (*pb.ShimResponse, error) {
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
