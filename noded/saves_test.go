package noded

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *fakeSession) save(alloc *pb.AllocId, number uint32) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SaveAlloc{SaveAlloc: &pb.SaveAlloc{Alloc: alloc, Number: number, Then: pb.SaveThen_SAVE_THEN_FREEZE}}})
}

func (s *fakeSession) saved() *pb.AllocSaved {
	s.t.Helper()
	return expect(s, "AllocSaved", (*pb.NodeMessage).GetAllocSaved)
}

func (s *fakeShim) tellSaved(saved *pb.AllocSaved) {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: saved}})
}

func imageOf(alloc *pb.AllocId, number uint32) *pb.AllocSaved {
	return &pb.AllocSaved{Alloc: alloc, Number: number, Image: &pb.Image{Alloc: alloc, Number: number, Digest: make([]byte, 32), Node: "n1"}, Frozen: true}
}

// TestSave: an order reaches the supervisor, and how it ended the controller,
// until that is acknowledged.
func TestSave(t *testing.T) {
	resendEvery = 20 * time.Millisecond
	t.Cleanup(func() { resendEvery = 10 * time.Second })
	controller, s, shims, n := setUp(t)
	alloc := &pb.AllocId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	shim.event(&pb.ShimEvent{What: &pb.ShimEvent_Checkpointable{Checkpointable: &pb.AllocCheckpointable{Checkpointable: pb.Checkpointable_CHECKPOINTABLE_LIKELY}}})
	if checkpointable := expect(s, "AllocCheckpointable", (*pb.NodeMessage).GetAllocCheckpointable); !proto.Equal(checkpointable.Alloc, alloc) || checkpointable.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_LIKELY {
		t.Errorf("grade %v", checkpointable)
	}
	s.save(alloc, 1)
	eventually(t, "the supervisor has the order", func() bool { return shim.count("save") == 1 })
	shim.tellSaved(imageOf(alloc, 1))
	for range 3 { // and again
		if saved := s.saved(); saved.Number != 1 || saved.Image == nil || !saved.Frozen {
			t.Errorf("told %v", saved)
		}
	}
	// Another daemon finds it, and tells it and the grade again.
	n.stop()
	startNode(t, n.socket, shims)
	s = controller.next()
	if checkpointable := expect(s, "AllocCheckpointable", (*pb.NodeMessage).GetAllocCheckpointable); checkpointable.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_LIKELY {
		t.Errorf("grade %v", checkpointable)
	}
	if saved := s.saved(); saved.Number != 1 {
		t.Errorf("told %v", saved)
	}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavedAcknowledged{SavedAcknowledged: &pb.SavedAcknowledged{Alloc: alloc, Number: 1}}})
	shim.tellSaved(imageOf(alloc, 1)) // as to an order that is repeated
	s.saved()
	time.Sleep(5 * resendEvery)
	s.end(alloc)
	for {
		m := <-s.received
		if m.GetAllocEnded() != nil {
			return
		}
		if m.GetAllocSaved() != nil && len(s.received) > 20 {
			t.Fatal("what is acknowledged is repeated")
		}
	}
}

// TestSavedBeforeEnded: a supervisor that died before anybody heard of its image
// left word of it, and that comes before the allocation's end.
func TestSavedBeforeEnded(t *testing.T) {
	_, s, shims, _ := setUp(t)
	alloc := &pb.AllocId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	s.ready()
	shim.mu.Lock()
	shim.saved = imageOf(alloc, 4)
	shim.mu.Unlock()
	shim.kill()
	for saved := false; ; {
		m := <-s.received
		if got := m.GetAllocSaved(); got != nil {
			saved = true
			if got.Number != 4 || got.Image == nil {
				t.Errorf("told %v", got)
			}
		}
		if m.GetAllocEnded() != nil {
			if !saved {
				t.Error("the end came first")
			}
			return
		}
	}
}

// TestNotSaved: an allocation that is not here, is over, or has a supervisor that
// cannot save it.
func TestNotSaved(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.save(&pb.AllocId{Job: 9, Epoch: 1}, 1)
	if saved := s.saved(); saved.Alloc.Job != 9 || saved.Error == "" || saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	alloc := &pb.AllocId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	s.ready()
	shim.mu.Lock()
	shim.saveErr = status.Error(codes.Unimplemented, "unknown method Save")
	shim.mu.Unlock()
	s.save(alloc, 1)
	if saved := s.saved(); saved.Number != 1 || saved.Error == "" || saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	shim.exit(0)
	s.ended()
	s.save(alloc, 2)
	for {
		if saved := s.saved(); saved.Number == 2 && saved.Error != "" {
			return
		}
	}
}
