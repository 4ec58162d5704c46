package noded

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// wildShims are supervisors that say what the input holds. They fail the test
// when a job is made to run twice.
type wildShims struct {
	t      *testing.T
	events [][]byte // what each says to its watchers

	mu       sync.Mutex
	running  map[uint32]uint32 // epoch by job
	launched map[registry.Key]bool
}

func (w *wildShims) Launch(_ context.Context, r resources, order *pb.StartAlloc) (supervisor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := registry.KeyOf(order.Alloc)
	if epoch, twice := w.running[key.Job]; twice || w.launched[key] {
		w.t.Errorf("job %d is started as run %d beside run %d", key.Job, key.Epoch, epoch)
	}
	if len(r.cpus) > len(order.Allocation)*1<<20 {
		w.t.Errorf("%d CPUs", len(r.cpus))
	}
	if key.Epoch%7 == 6 {
		return nil, errors.New("\xff no room \x1b[2J")
	}
	w.running[key.Job], w.launched[key] = key.Epoch, true
	return &wildShim{all: w, order: order, events: w.events}, nil
}

func (w *wildShims) Fits(context.Context, resources, *pb.StartAlloc, *checkpoint.Manifest) (bundle.Misfit, error) {
	return bundle.Misfit{}, nil
}
func (w *wildShims) List() ([]supervisor, error)                { return nil, nil }
func (w *wildShims) Discard(context.Context) error              { return nil }
func (w *wildShims) Try(context.Context) error                  { return nil }
func (w *wildShims) Sweep(func(string) bool) []*remove.LeftOver { return nil }

// wildShim is one of them, and the client of itself. It is over when it has
// said everything.
type wildShim struct {
	grpc.ClientStream
	all    *wildShims
	order  *pb.StartAlloc
	mu     sync.Mutex
	events [][]byte
	dead   bool
}

func (s *wildShim) Order() *pb.StartAlloc           { return s.order }
func (s *wildShim) Client() (pb.ShimClient, error)  { return s, nil }
func (s *wildShim) Result() (*pb.AllocEnded, error) { return nil, errNone }
func (s *wildShim) Forget() error                   { return nil }
func (s *wildShim) Saved() *pb.AllocSaved           { return &pb.AllocSaved{Number: 7, Frozen: true} }

func (s *wildShim) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead
}

func (s *wildShim) Frozen() (bool, error) { return true, nil }
func (s *wildShim) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	return nil
}

func (s *wildShim) Recover(context.Context) (*pb.AllocEnded, error) {
	s.over()
	return &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}, nil
}

func (s *wildShim) over() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.all.running[s.order.Alloc.Job] == s.order.Alloc.Epoch {
		delete(s.all.running, s.order.Alloc.Job)
	}
}

func (s *wildShim) Watch(context.Context, *pb.ShimWatchRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.ShimEvent], error) {
	return s, nil
}

func (s *wildShim) Recv() (*pb.ShimEvent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 || s.dead {
		s.dead = true
		return nil, io.EOF
	}
	event := &pb.ShimEvent{}
	err := proto.Unmarshal(s.events[0], event)
	s.events = s.events[1:]
	if event.GetEnded() != nil && err == nil {
		s.dead = true
		s.over()
	}
	return event, err
}

func (s *wildShim) answer(refused bool) (*pb.ShimResponse, error) {
	if refused || !s.Alive() {
		return nil, status.Error(codes.Unavailable, "\u009bgone")
	}
	return &pb.ShimResponse{}, nil
}

func (s *wildShim) StartBatch(context.Context, *pb.ReleaseBatch, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) End(context.Context, *pb.EndAlloc, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Signal(_ context.Context, order *pb.SignalAlloc, _ ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(order.GetSignal() > 64)
}

func (s *wildShim) JoinTunnel(context.Context, *pb.Connect, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) SetLimit(context.Context, *pb.SetTimeLimit, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Save(context.Context, *pb.SaveAlloc, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Suspend(context.Context, *pb.SuspendAlloc, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Hold(context.Context, *pb.HoldAlloc, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Renew(context.Context, *pb.LeaseRenewed, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) ShowUsage(context.Context, *pb.ShimUsageRequest, ...grpc.CallOption) (*pb.Usage, error) {
	return nil, status.Error(codes.Unimplemented, "no")
}

// FuzzOrders: whatever a controller orders, in whatever order, and whatever
// the supervisors say, no job runs twice at once, every report is one that can
// be sent and names an allocation that was ordered, and the agent stops when it is
// told to.
func FuzzOrders(f *testing.F) {
	seedOrders(f)
	f.Fuzz(func(t *testing.T, orders, events []byte) {
		synctest.Test(t, func(t *testing.T) {
			_, said := prototest.Split(events, 8)
			_, messages := prototest.Split(orders, 32)
			shims := &wildShims{t: t, events: said, running: map[uint32]uint32{}, launched: map[registry.Key]bool{}}
			ctx, cancel := context.WithCancel(context.Background())
			a := newAgent(testMachine("/x"), shims, "instance", slog.New(slog.DiscardHandler))
			s := &session{target: "unix:///x", outgoing: make(chan *pb.NodeMessage, 256), tunnels: semaphore.NewWeighted(4), end: func(error) {}}
			a.register(s, &pb.Inventory{})
			ordered := map[registry.Key]bool{}
			for _, data := range messages {
				m := &pb.ControllerMessage{}
				if proto.Unmarshal(data, m) != nil {
					continue
				}
				ordered[registry.KeyOf(m.GetStartAlloc().GetAlloc())] = true
				ordered[registry.KeyOf(m.GetEndAlloc().GetAlloc())] = true
				ordered[registry.KeyOf(m.GetSaveAlloc().GetAlloc())] = true
				a.obey(ctx, s, m)
				synctest.Wait()
			}
			a.resend()
			cancel()
			a.tending.Wait()
			checkReports(t, s, ordered)
			a.mu.Lock()
			defer a.mu.Unlock()
			for key, p := range a.allocs {
				if p.Key != key || p.impatience != nil && p.Life.Over() && p.impatience.Stop() {
					t.Errorf("allocation %v is listed as %v, or waits for what is over", p.Key, key)
				}
				if p.impatience != nil {
					p.impatience.Stop()
				}
			}
		})
	})
}

func checkReports(t *testing.T, s *session, ordered map[registry.Key]bool) {
	for {
		select {
		case m := <-s.outgoing:
			if _, err := proto.Marshal(m); err != nil {
				t.Fatalf("a report that cannot be sent ends every session: %v", err)
			}
			for _, alloc := range []*pb.AllocId{
				m.GetAllocEnded().GetAlloc(), m.GetAllocReady().GetAlloc(), m.GetAllocSuspended().GetAlloc(),
				m.GetAllocSaved().GetAlloc(), m.GetAllocCheckpointable().GetAlloc(),
			} {
				if alloc != nil && !ordered[registry.KeyOf(alloc)] {
					t.Fatalf("a report of an allocation that nobody asked for: %v", m)
				}
			}
		default:
			return
		}
	}
}

func seedOrders(f *testing.F) {
	alloc := &pb.AllocId{Job: 12, Epoch: 1}
	start, wide, gang := startOrder(12, 1), startOrder(12, 2), startOrder(13, 1)
	wide.Allocation[1].CpuIds = []uint32{math.MaxUint32}
	gang.Gang = true
	gang.Allocation[1].Devices = []*pb.AllocatedDevice{{DeviceId: "g1"}}
	messages := []*pb.ControllerMessage{
		{What: &pb.ControllerMessage_StartAlloc{StartAlloc: start}},
		{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: &pb.ReleaseBatch{Alloc: alloc}}},
		{What: &pb.ControllerMessage_SignalAlloc{SignalAlloc: &pb.SignalAlloc{Alloc: alloc, Signal: 99, Token: "t"}}},
		{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: &pb.LeaseRenewed{SentBoottimeNs: math.MinInt64, LeaseMs: math.MaxUint32}}},
		{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{Alloc: alloc, Channel: "c", Controller: "x:1"}}},
		{What: &pb.ControllerMessage_EndAlloc{EndAlloc: &pb.EndAlloc{Alloc: alloc, GraceS: math.MaxUint32}}},
		{What: &pb.ControllerMessage_EndedAcknowledged{EndedAcknowledged: &pb.EndedAcknowledged{Alloc: alloc}}},
		{What: &pb.ControllerMessage_StartAlloc{StartAlloc: wide}},
		{What: &pb.ControllerMessage_StartAlloc{StartAlloc: gang}},
		{What: &pb.ControllerMessage_StartAlloc{StartAlloc: startOrder(14, 6)}},
		{What: &pb.ControllerMessage_SuspendAlloc{SuspendAlloc: &pb.SuspendAlloc{Alloc: alloc, Number: math.MaxUint32, Suspended: true}}},
		{What: &pb.ControllerMessage_SaveAlloc{SaveAlloc: &pb.SaveAlloc{Alloc: alloc, Number: 1, Then: pb.SaveThen_SAVE_THEN_FREEZE}}},
		{What: &pb.ControllerMessage_SavedAcknowledged{SavedAcknowledged: &pb.SavedAcknowledged{Alloc: alloc, Number: 7}}},
		{What: &pb.ControllerMessage_AskRestore{AskRestore: &pb.AskRestore{Token: "t", Image: &pb.Image{Digest: make([]byte, 32)}}}},
		{What: &pb.ControllerMessage_TendImages{TendImages: &pb.TendImages{Token: "t", Verb: pb.ImagesVerb_IMAGES_VERB_REMOVE, Image: "lab.example/xy", All: true, User: &pb.Identity{Uid: 7}}}},
		{What: &pb.ControllerMessage_KeepImages{KeepImages: &pb.KeepImages{Images: []*pb.Image{{Alloc: alloc}}}}},
		{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: &pb.Image{Digest: make([]byte, 32), Store: "x"}}}},
		{What: &pb.ControllerMessage_SendOutput{SendOutput: &pb.SendOutput{Alloc: alloc, Channel: "c", Path: "/proc/self/mem", Read: &pb.ReadOutput{Had: math.MaxUint64, Last: []byte("x"), Follow: true}}}},
		{},
	}
	var sound [][]byte
	for _, m := range messages {
		sound = append(sound, prototest.Marshal(m))
	}
	kinds := make([]byte, 64)
	join := func(messages ...[]byte) []byte { return prototest.Join(kinds[:len(messages)], messages) }
	ready := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.AllocReady{Alloc: &pb.AllocId{Job: 99}}}})
	ended := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Ended{Ended: &pb.AllocEnded{Alloc: &pb.AllocId{Job: 99}, ExitCode: math.MaxUint32, Detail: "\u009b"}}})
	saved := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: &pb.AllocSaved{
		Alloc: &pb.AllocId{Job: 99}, Number: math.MaxUint32, Image: &pb.Image{}, Error: "\u009b"}}})
	graded := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Checkpointable{}})
	f.Add(join(sound...), join(ready, saved, graded, saved, ended))
	f.Add(join(sound...), join(ready, ended))
	f.Add(join(sound...), join(ready, ready, ready))
	f.Add(join(sound[0], sound[7], sound[0]), join(ended, ended))
	f.Add(join(sound[5], sound[0], sound[6], sound[0]), join())
	for i, m := range messages {
		for _, data := range prototest.Spoiled(m) {
			f.Add(join(sound[0], data, sound[i]), join(ready))
		}
	}
	for _, data := range prototest.Hostile[pb.ShimEvent]() {
		f.Add(join(sound[0], sound[1], sound[5]), join(ready, data))
	}
}

// TestLeftOversCanBeSent: a job names its files by any bytes, and one that
// cannot be removed must not keep the node from registering.
func TestLeftOversCanBeSent(t *testing.T) {
	a := newAgent(testMachine("/x"), &wildShims{t: t}, "instance", slog.New(slog.DiscardHandler))
	a.mu.Lock()
	p := a.newAlloc(a.registry.Adopt(startOrder(12, 1), timeNow()))
	a.mu.Unlock()
	for range 2 {
		a.setLeftOver(p, &remove.LeftOver{Path: "/jobs/12.1/\xff", Err: errors.New("remove \xfe: device or resource busy")})
	}
	s := &session{outgoing: make(chan *pb.NodeMessage, 4)}
	a.register(s, &pb.Inventory{})
	m := <-s.outgoing
	if _, err := proto.Marshal(m); err != nil || len(m.GetRegister().GetLeftOvers()) != 1 {
		t.Errorf("%v: %v", err, m)
	}
}
