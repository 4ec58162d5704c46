package leader

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// newMover is a saver whose job is being moved to n2, and is frozen with image
// 1.
func newMover(t *testing.T) *saver {
	t.Helper()
	s := newSaver(t, &pb.JobSpec{})
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveMove, To: []string{"n2"}})
	if order := s.told("n1").GetSaveAlloc(); order.GetNumber() != 1 || order.GetThen() != pb.SaveThen_SAVE_THEN_FREEZE || order.GetTimeoutS() == 0 {
		t.Fatalf("the order to save it: %v", order)
	}
	s.NodeReported("n1")
	if again := s.told("n1"); again != nil {
		t.Fatalf("the same order twice in a session: %v", again)
	}
	if early := s.told("n2"); early != nil {
		t.Fatalf("before there is an image node n2 is told %v", early)
	}
	s.saved("n1", 1, true)
	if got := s.told("n1"); got.GetSavedAcknowledged().GetNumber() != 1 {
		t.Fatalf("once it is saved node n1 is told %v", got)
	}
	return s
}

// readyAs says that an allocation of another run than the job's is up.
func (s *saver) readyAs(node string, epoch uint32) {
	s.t.Helper()
	if err := s.Ready(context.Background(), s.nodes[node], &pb.AllocReady{Alloc: &pb.AllocId{Job: s.job, Epoch: epoch}}); err != nil {
		s.t.Fatal(err)
	}
	s.CommitReports(context.Background())
}

// TestMove: a job that is moved is saved and frozen; the node is asked and
// restores it; then that is the job's run, may run, and the original is ended
// while it is frozen.
func TestMove(t *testing.T) {
	s := newMover(t)
	if early := s.told("n2"); early != nil {
		t.Fatalf("node n2 has not said whether it can, and is told %v", early)
	}
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n2", "")
	order := s.told("n2").GetStartAlloc()
	if order.GetRestore().GetNumber() != 1 || order.GetAlloc().GetEpoch() != 2 || !order.GetGang() {
		t.Fatalf("the order to continue: %v", order)
	}
	if job := s.now(); job.Epoch != 1 || job.Phase != state.Running {
		t.Fatalf("it has left already: %+v", job)
	}
	// A daemon that connects again is told nothing that lets the original continue.
	s.Sweep()
	for _, m := range orders(s.nodes["n1"]) {
		if m.GetKeepImages() == nil {
			t.Fatalf("while it is frozen node n1 is told %v", m)
		}
	}
	s.readyAs("n2", 2)
	if job := s.now(); job.Epoch != 2 || job.Run.BatchHost() != "n2" || job.Restarts != 0 {
		t.Fatalf("it has not moved: %+v", job.Run)
	}
	if got := told(s, "n2"); got[len(got)-1].GetReleaseBatch().GetAlloc().GetEpoch() != 2 {
		t.Fatalf("node n2 is told %v", got)
	}
	got := told(s, "n1")
	if end := got[len(got)-1].GetEndAlloc(); end.GetAlloc().GetEpoch() != 1 || end.GetGraceS() != 0 || got[0].GetSaveAlloc() != nil {
		t.Fatalf("node n1 is told %v", got)
	}
	s.endedAs("n1", 1, pb.EndCause_END_CAUSE_CANCELLED)
	if job := s.now(); job.Phase != state.Running || len(job.Run.Beside) != 0 {
		t.Fatalf("it has left behind %+v", job.Run.Beside)
	}
}

// TestMoveRefused: the node that was named cannot resume the job, and says so
// when it is asked, or when it has tried; the controllers have waited long
// enough; or the node does not respond. Each time the job continues where it
// is.
func TestMoveRefused(t *testing.T) {
	ways := map[string]struct {
		do   func(s *saver)
		says string
	}{
		"the node says no": {func(s *saver) {
			s.KeepSaved(context.Background(), time.Now())
			s.answer("n2", "kernel")
			s.KeepSaved(context.Background(), time.Now())
		}, "kernel is another"},
		"the restore fails": {func(s *saver) {
			s.KeepSaved(context.Background(), time.Now())
			s.answer("n2", "")
			s.told("n2")
			s.endedAs("n2", 2, pb.EndCause_END_CAUSE_RESTORE_FAILED)
		}, "was not restored"},
		"it is late": {func(s *saver) {
			s.KeepSaved(context.Background(), time.Now().Add(24*time.Hour))
		}, "within 15 minutes"},
		"the node is silent": {func(s *saver) {
			s.b.must(s.t, state.NodesLost{Names: []string{"n2"}})
		}, "does not respond"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			s := newMover(t)
			way.do(s)
			job := s.now()
			if job.Phase != state.Running || job.Epoch != 1 || job.Moving() != nil || job.Saved.MoveFailed == nil || !strings.Contains(job.Saved.MoveFailed.Reason, way.says) {
				t.Fatalf("phase %d, run %d: %+v", job.Phase, job.Epoch, job.Saved.MoveFailed)
			}
			goesOn := false
			for _, m := range told(s, "n1") {
				order := m.GetSaveAlloc()
				goesOn = goesOn || order.GetAbandon() && order.GetNumber() == 1
				if m.GetEndAlloc() != nil {
					t.Errorf("node n1 is told %v", m)
				}
			}
			if !goesOn {
				t.Error("the original is not told to continue")
			}
			// What comes of the successor after that changes nothing.
			s.readyAs("n2", 2)
			if job := s.now(); job.Epoch != 1 {
				t.Fatalf("run %d took its place after it continued", job.Epoch)
			}
			for _, m := range told(s, "n2") {
				if m.GetReleaseBatch() != nil {
					t.Errorf("the successor is told to run: %v", m)
				}
			}
		})
	}
}

// told is all that a node is ordered now.
func told(s *saver, node string) []*pb.ControllerMessage {
	s.Sweep()
	dispatch(s.Leader)
	return orders(s.nodes[node])
}
