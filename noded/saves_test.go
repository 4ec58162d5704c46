package noded

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *fakeSession) save(part *pb.PartId, number uint32) {
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavePart{SavePart: &pb.SavePart{Part: part, Number: number, Then: pb.SaveThen_SAVE_THEN_STAND}}})
}

func (s *fakeSession) saved() *pb.PartSaved {
	s.t.Helper()
	return expect(s, "PartSaved", (*pb.NodeMessage).GetPartSaved)
}

func (s *fakeShim) tellSaved(saved *pb.PartSaved) {
	s.event(&pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: saved}})
}

func imageOf(part *pb.PartId, number uint32) *pb.PartSaved {
	return &pb.PartSaved{Part: part, Number: number, Image: &pb.Image{Part: part, Number: number, Digest: make([]byte, 32), Node: "n1"}, Stands: true}
}

// TestSave: an order reaches the supervisor, and how it ended the controller,
// until that is acknowledged.
func TestSave(t *testing.T) {
	resendEvery = 20 * time.Millisecond
	t.Cleanup(func() { resendEvery = 10 * time.Second })
	controller, s, shims, n := setUp(t)
	part := &pb.PartId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	shim.event(&pb.ShimEvent{What: &pb.ShimEvent_Grade{Grade: &pb.PartGrade{Grade: pb.SaveGrade_SAVE_GRADE_LIKELY}}})
	if grade := expect(s, "PartGrade", (*pb.NodeMessage).GetPartGrade); !proto.Equal(grade.Part, part) || grade.Grade != pb.SaveGrade_SAVE_GRADE_LIKELY {
		t.Errorf("grade %v", grade)
	}
	s.save(part, 1)
	eventually(t, "the supervisor has the order", func() bool { return shim.count("save") == 1 })
	shim.tellSaved(imageOf(part, 1))
	for range 3 { // and again
		if saved := s.saved(); saved.Number != 1 || saved.Image == nil || !saved.Stands {
			t.Errorf("told %v", saved)
		}
	}
	// Another daemon finds it, and tells it and the grade anew.
	n.stop()
	startNode(t, n.socket, shims)
	s = controller.next()
	if grade := expect(s, "PartGrade", (*pb.NodeMessage).GetPartGrade); grade.Grade != pb.SaveGrade_SAVE_GRADE_LIKELY {
		t.Errorf("grade %v", grade)
	}
	if saved := s.saved(); saved.Number != 1 {
		t.Errorf("told %v", saved)
	}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavedAcknowledged{SavedAcknowledged: &pb.SavedAcknowledged{Part: part, Number: 1}}})
	shim.tellSaved(imageOf(part, 1)) // as to an order that is repeated
	s.saved()
	time.Sleep(5 * resendEvery)
	s.end(part)
	for {
		m := <-s.received
		if m.GetPartEnded() != nil {
			return
		}
		if m.GetPartSaved() != nil && len(s.received) > 20 {
			t.Fatal("what is acknowledged is repeated")
		}
	}
}

// TestSavedBeforeEnded: a supervisor that died before anybody heard of its image
// left word of it, and that comes before the part's end.
func TestSavedBeforeEnded(t *testing.T) {
	_, s, shims, _ := setUp(t)
	part := &pb.PartId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	s.ready()
	shim.mu.Lock()
	shim.saved = imageOf(part, 4)
	shim.mu.Unlock()
	shim.kill()
	for saved := false; ; {
		m := <-s.received
		if got := m.GetPartSaved(); got != nil {
			saved = true
			if got.Number != 4 || got.Image == nil {
				t.Errorf("told %v", got)
			}
		}
		if m.GetPartEnded() != nil {
			if !saved {
				t.Error("the end came first")
			}
			return
		}
	}
}

// TestNotSaved: a part that is not here, is over, or has a supervisor that
// cannot save it.
func TestNotSaved(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.save(&pb.PartId{Job: 9, Epoch: 1}, 1)
	if saved := s.saved(); saved.Part.Job != 9 || saved.Error == "" || saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	part := &pb.PartId{Job: 1, Epoch: 1}
	s.start(startOrder(1, 1))
	shim := shims.get(1, 1)
	shim.ready()
	s.ready()
	shim.mu.Lock()
	shim.saveErr = status.Error(codes.Unimplemented, "unknown method Save")
	shim.mu.Unlock()
	s.save(part, 1)
	if saved := s.saved(); saved.Number != 1 || saved.Error == "" || saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	shim.exit(0)
	s.ended()
	s.save(part, 2)
	for {
		if saved := s.saved(); saved.Number == 2 && saved.Error != "" {
			return
		}
	}
}
