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

	"github.com/gleaner-hpc/gleaner/noded/shim"
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
	launched map[partKey]bool
}

func (w *wildShims) Launch(_ context.Context, r resources, order *pb.StartPart) (supervisor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(order.Part)
	if epoch, twice := w.running[key.job]; twice || w.launched[key] {
		w.t.Errorf("job %d is started as run %d beside run %d", key.job, key.epoch, epoch)
	}
	if len(r.cpus) > len(order.Allocation)*1<<20 {
		w.t.Errorf("%d CPUs", len(r.cpus))
	}
	if key.epoch%7 == 6 {
		return nil, errors.New("\xff no room \x1b[2J")
	}
	w.running[key.job], w.launched[key] = key.epoch, true
	return &wildShim{all: w, order: order, events: w.events}, nil
}

func (w *wildShims) List() ([]supervisor, error)              { return nil, nil }
func (w *wildShims) Discard(context.Context) error            { return nil }
func (w *wildShims) Sweep(func(string) bool) []*shim.LeftOver { return nil }

// wildShim is one of them, and the client of itself. It is over when it has
// said everything.
type wildShim struct {
	grpc.ClientStream
	all    *wildShims
	order  *pb.StartPart
	mu     sync.Mutex
	events [][]byte
	dead   bool
}

func (s *wildShim) Order() *pb.StartPart           { return s.order }
func (s *wildShim) Client() (pb.ShimClient, error) { return s, nil }
func (s *wildShim) Result() (*pb.PartEnded, error) { return nil, errNone }
func (s *wildShim) Forget() error                  { return nil }
func (s *wildShim) Saved() *pb.PartSaved           { return &pb.PartSaved{Number: 7, Stands: true} }

func (s *wildShim) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead
}

func (s *wildShim) Stands() (bool, error) { return true, nil }
func (s *wildShim) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	return nil
}

func (s *wildShim) Recover(context.Context) (*pb.PartEnded, error) {
	s.over()
	return &pb.PartEnded{Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}, nil
}

func (s *wildShim) over() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.all.running[s.order.Part.Job] == s.order.Part.Epoch {
		delete(s.all.running, s.order.Part.Job)
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

func (s *wildShim) End(context.Context, *pb.EndPart, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Signal(_ context.Context, order *pb.SignalPart, _ ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(order.GetSignal() > 64)
}

func (s *wildShim) JoinTunnel(context.Context, *pb.Connect, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) SetLimit(context.Context, *pb.SetTimeLimit, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Save(context.Context, *pb.SavePart, ...grpc.CallOption) (*pb.ShimResponse, error) {
	return s.answer(false)
}

func (s *wildShim) Suspend(context.Context, *pb.SuspendPart, ...grpc.CallOption) (*pb.ShimResponse, error) {
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
// be sent and names a part that was ordered, and the agent stops when it is
// told to.
func FuzzOrders(f *testing.F) {
	seedOrders(f)
	f.Fuzz(func(t *testing.T, orders, events []byte) {
		synctest.Test(t, func(t *testing.T) {
			_, said := prototest.Split(events, 8)
			_, messages := prototest.Split(orders, 32)
			shims := &wildShims{t: t, events: said, running: map[uint32]uint32{}, launched: map[partKey]bool{}}
			ctx, cancel := context.WithCancel(context.Background())
			a := newAgent(testMachine("/x"), shims, "instance", slog.New(slog.DiscardHandler))
			s := &session{target: "unix:///x", outgoing: make(chan *pb.NodeMessage, 256), tunnels: semaphore.NewWeighted(4), end: func(error) {}}
			a.register(s, &pb.Inventory{})
			ordered := map[partKey]bool{}
			for _, data := range messages {
				m := &pb.ControllerMessage{}
				if proto.Unmarshal(data, m) != nil {
					continue
				}
				ordered[keyOf(m.GetStartPart().GetPart())] = true
				ordered[keyOf(m.GetEndPart().GetPart())] = true
				ordered[keyOf(m.GetSavePart().GetPart())] = true
				a.obey(ctx, s, m)
				synctest.Wait()
			}
			a.resend()
			cancel()
			a.tending.Wait()
			checkReports(t, s, ordered)
			a.mu.Lock()
			defer a.mu.Unlock()
			for key, p := range a.parts {
				if p.key != key || p.impatience != nil && p.life.Over() && p.impatience.Stop() {
					t.Errorf("part %v is listed as %v, or waits for what is over", p.key, key)
				}
				if p.impatience != nil {
					p.impatience.Stop()
				}
			}
		})
	})
}

func checkReports(t *testing.T, s *session, ordered map[partKey]bool) {
	for {
		select {
		case m := <-s.outgoing:
			if _, err := proto.Marshal(m); err != nil {
				t.Fatalf("a report that cannot be sent ends every session: %v", err)
			}
			for _, part := range []*pb.PartId{
				m.GetPartEnded().GetPart(), m.GetPartReady().GetPart(), m.GetPartSuspended().GetPart(),
				m.GetPartSaved().GetPart(), m.GetPartGrade().GetPart(),
			} {
				if part != nil && !ordered[keyOf(part)] {
					t.Fatalf("a report of a part that nobody asked for: %v", m)
				}
			}
		default:
			return
		}
	}
}

func seedOrders(f *testing.F) {
	part := &pb.PartId{Job: 12, Epoch: 1}
	start, wide, gang := startOrder(12, 1), startOrder(12, 2), startOrder(13, 1)
	wide.Allocation[1].CpuIds = []uint32{math.MaxUint32}
	gang.Gang = true
	gang.Allocation[1].Devices = []*pb.AllocatedDevice{{DeviceId: "g1"}}
	messages := []*pb.ControllerMessage{
		{What: &pb.ControllerMessage_StartPart{StartPart: start}},
		{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: &pb.ReleaseBatch{Part: part}}},
		{What: &pb.ControllerMessage_SignalPart{SignalPart: &pb.SignalPart{Part: part, Signal: 99, Token: "t"}}},
		{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: &pb.LeaseRenewed{SentBoottimeNs: math.MinInt64, LeaseMs: math.MaxUint32}}},
		{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{Part: part, Channel: "c", Controller: "x:1"}}},
		{What: &pb.ControllerMessage_EndPart{EndPart: &pb.EndPart{Part: part, GraceS: math.MaxUint32}}},
		{What: &pb.ControllerMessage_EndedAcknowledged{EndedAcknowledged: &pb.EndedAcknowledged{Part: part}}},
		{What: &pb.ControllerMessage_StartPart{StartPart: wide}},
		{What: &pb.ControllerMessage_StartPart{StartPart: gang}},
		{What: &pb.ControllerMessage_StartPart{StartPart: startOrder(14, 6)}},
		{What: &pb.ControllerMessage_SuspendPart{SuspendPart: &pb.SuspendPart{Part: part, Number: math.MaxUint32, Suspended: true}}},
		{What: &pb.ControllerMessage_SavePart{SavePart: &pb.SavePart{Part: part, Number: 1, Then: pb.SaveThen_SAVE_THEN_STAND}}},
		{What: &pb.ControllerMessage_SavedAcknowledged{SavedAcknowledged: &pb.SavedAcknowledged{Part: part, Number: 7}}},
		{What: &pb.ControllerMessage_AskRestore{AskRestore: &pb.AskRestore{Token: "t", Image: &pb.Image{Digest: make([]byte, 32)}}}},
		{What: &pb.ControllerMessage_KeepImages{KeepImages: &pb.KeepImages{Images: []*pb.Image{{Part: part}}}}},
		{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: &pb.Image{Digest: make([]byte, 32), Store: "x"}}}},
		{},
	}
	var sound [][]byte
	for _, m := range messages {
		sound = append(sound, prototest.Marshal(m))
	}
	kinds := make([]byte, 64)
	join := func(messages ...[]byte) []byte { return prototest.Join(kinds[:len(messages)], messages) }
	ready := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.PartReady{Part: &pb.PartId{Job: 99}}}})
	ended := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Ended{Ended: &pb.PartEnded{Part: &pb.PartId{Job: 99}, ExitCode: math.MaxUint32, Detail: "\u009b"}}})
	saved := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: &pb.PartSaved{
		Part: &pb.PartId{Job: 99}, Number: math.MaxUint32, Image: &pb.Image{}, Error: "\u009b"}}})
	graded := prototest.Marshal(&pb.ShimEvent{What: &pb.ShimEvent_Grade{}})
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
	p := a.newPart(startOrder(12, 1))
	a.mu.Unlock()
	for range 2 {
		a.setLeftOver(p, &shim.LeftOver{Path: "/jobs/12.1/\xff", Err: errors.New("remove \xfe: device or resource busy")})
	}
	s := &session{outgoing: make(chan *pb.NodeMessage, 4)}
	a.register(s, &pb.Inventory{})
	m := <-s.outgoing
	if _, err := proto.Marshal(m); err != nil || len(m.GetRegister().GetLeftOvers()) != 1 {
		t.Errorf("%v: %v", err, m)
	}
}
