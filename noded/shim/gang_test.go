package shim

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// release says that the allocations on all nodes are ready.
func (s *started) release() {
	s.b.t.Helper()
	_, err := s.client().StartBatch(context.Background(), &pb.ReleaseBatch{Alloc: s.order.Alloc})
	must(s.b.t, err)
}

// TestRestoredGangWaits: an allocation of several is there, and does not run until all
// are. One that is ended before has not run.
func TestRestoredGangWaits(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	order.Gang = true
	first := b.launch(order)
	first.ready()
	if early := first.save(&pb.SaveAlloc{Number: 1, Then: freeze}); early.Image != nil || early.Frozen {
		t.Errorf("saved before its script has begun: %v", early)
	}
	first.release()
	b.countsOn()
	saved := first.saveAndEnd(2)
	at := b.counts()

	second := b.launch(restored(order, saved.Image))
	second.ready()
	time.Sleep(100 * time.Millisecond)
	if now := b.counts(); now != at {
		t.Fatalf("it ran before the others were there: %d, %d", at, now)
	}
	second.suspend(1, true)
	second.says(1, true)
	second.release()
	time.Sleep(100 * time.Millisecond)
	if now := b.counts(); now != at {
		t.Fatalf("it ran though it is suspended: %d, %d", at, now)
	}
	if early := second.save(&pb.SaveAlloc{Number: 2, Then: freeze}); early.Image != nil || early.Frozen {
		t.Errorf("what has not run is saved: %v", early)
	}
	_, err := second.client().End(context.Background(), &pb.EndAlloc{Alloc: second.order.Alloc, GraceS: 5})
	must(t, err)
	if result := second.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
	if now := b.counts(); now != at {
		t.Errorf("it ran to its end: %d, %d", at, now)
	}

	order.Alloc.Epoch++
	third := b.launch(restored(order, saved.Image))
	third.ready()
	third.suspend(1, true)
	third.release()
	third.suspend(2, false)
	third.release()
	b.countsOn()
	// Process 1 answers as before.
	_, err = third.client().Signal(context.Background(), &pb.SignalAlloc{Alloc: third.order.Alloc, Signal: 18, Full: true})
	must(t, err)
	wantSaved(t, third.saveOnceStarted(3))
	b.countsOn()
	_, err = third.client().End(context.Background(), endOrder(third))
	must(t, err)
	third.wait()
	b.counts()
}

// TestFrozenAllocHasItsTimeToEnd: one that was frozen for an image that was taken back
// is thawed first, and gets its TERM.
func TestFrozenAllocHasItsTimeToEnd(t *testing.T) {
	b := newSavingBed(t)
	s := b.launch(b.order("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"))
	s.ready()
	eventually(t, "it is up", func() bool { return b.output() == "up\n" })
	wantSaved(t, s.save(&pb.SaveAlloc{Number: 1, Then: freeze}))
	_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	must(t, err)
	_, err = s.client().End(context.Background(), &pb.EndAlloc{Alloc: s.order.Alloc, GraceS: 60})
	must(t, err)
	if s.wait(); !strings.HasSuffix(b.output(), "bye\n") {
		t.Errorf("it wrote %q", b.output())
	}
}

// TestLateTakeBack: an order that is older than the save for which the allocation is frozen
// thaws nothing.
func TestLateTakeBack(t *testing.T) {
	s := newSavedAlloc(t)
	s.save(1, freeze)
	s.told(1)
	s.save(2, freeze)
	s.told(2)
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	s.frozen()
	if saved := s.told(2); !saved.Frozen {
		t.Errorf("told %v", saved)
	}
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 2, Abandon: true})
	s.runs()
	if saved := s.told(2); saved.Frozen || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
}

// stepEnd is a controller that joins this allocation with a step on another node,
// until that is over.
type stepEnd struct {
	pb.UnimplementedNodeLinkServer
	over chan struct{}
}

func (e *stepEnd) Tunnel(stream grpc.BidiStreamingServer[pb.TunnelMessage, pb.TunnelMessage]) error {
	_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Received{}})
	<-e.over
	_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Abandoned{Abandoned: true}})
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
	}
}

// joinStep joins a step of another node.
func (s *savedAlloc) joinStep() error {
	_, err := (&service{alloc: s.alloc}).JoinTunnel(context.Background(), &pb.Connect{Alloc: s.order.Alloc, Line: "name"})
	return err
}

// TestOpenStreamsKeepFromSaving: while a step of another node runs here the
// allocation is not saved, and it says so; while it is saved no step comes.
func TestOpenStreamsKeepFromSaving(t *testing.T) {
	checkpointable := func(s *savedAlloc) *pb.AllocCheckpointable {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.checkpointableNow()
	}
	s := newSavedAlloc(t)
	end := &stepEnd{over: make(chan struct{})}
	at := filepath.Join(t.TempDir(), "c")
	listener, err := net.Listen("unix", at)
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterNodeLinkServer(server, end)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	s.settings.Controllers = []string{"unix://" + at}
	s.relay.InitUIDs = []uint32{0} // as whom this test answers
	init, err := socket.Listen(s.dir.Path(bundle.RunDir, pid1.StepSocket), 0, 0)
	must(t, err)
	t.Cleanup(func() { init.Close() })

	must(t, s.joinStep())
	if now := checkpointable(s); now.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NOT_NOW || !strings.Contains(now.Reason, "grun") {
		t.Errorf("checkpointable %v", now)
	}
	s.save(1, freeze)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "grun") {
		t.Errorf("told %v", saved)
	}
	must(t, s.answers())
	close(end.over)
	eventually(t, "it can be saved", func() bool { return checkpointable(s).Checkpointable == pb.Checkpointable_CHECKPOINTABLE_LIKELY })
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(2, resume)
	<-s.saver.began
	if err := s.joinStep(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "being saved") {
		t.Errorf("a step comes while the job is saved: %v", err)
	}
	close(s.saver.hold)
	if saved := s.told(2); saved.Image == nil {
		t.Errorf("told %v", saved)
	}
}
