package leader

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// newGangSaver is a saver whose job runs on both nodes.
func newGangSaver(t *testing.T) *saver {
	t.Helper()
	s := newSaver(t, &pb.JobSpec{MinNodes: 2, Requeue: true})
	s.ready("n2")
	orders(s.nodes["n1"])
	return s
}

// orderedSaves are the orders about saves that a node gets, the end of an allocation
// among them.
func (s *saver) orderedSaves(node string) (saves []*pb.SaveAlloc, ends bool) {
	s.t.Helper()
	dispatch(s.Leader)
	for _, order := range orders(s.nodes[node]) {
		if save := order.GetSaveAlloc(); save != nil {
			saves = append(saves, save)
		}
		ends = ends || order.GetEndAlloc() != nil
	}
	return saves, ends
}

func (s *saver) wantFrozen(number uint32) {
	s.t.Helper()
	for node := range s.nodes {
		if saves, _ := s.orderedSaves(node); len(saves) != 1 || saves[0].Number != number || saves[0].Then != pb.SaveThen_SAVE_THEN_FREEZE {
			s.t.Fatalf("node %s is told %v", node, saves)
		}
	}
}

// TestGangSaved: all allocations are frozen with the same number until all are
// saved; then all are told to continue.
func TestGangSaved(t *testing.T) {
	s := newGangSaver(t)
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveAsked})
	s.wantFrozen(1)
	s.saved("n1", 1, true)
	if saves, _ := s.orderedSaves("n1"); len(saves) > 0 || len(s.now().Images()) > 0 {
		t.Fatalf("half of it is saved, and node n1 is told %v", saves)
	}
	s.Sweep()
	s.NodeReported("n1")
	if keep := s.b.View().NeededImages()["n1"]; len(keep) != 1 {
		t.Fatalf("node n1 keeps %v", keep)
	}
	s.saved("n2", 1, true)
	for _, node := range []string{"n1", "n2"} {
		if saves, ends := s.orderedSaves(node); len(saves) != 1 || !saves[0].Abandon || saves[0].Number != 1 || ends {
			t.Errorf("node %s is told %v", node, saves)
		}
	}
	if images := s.now().Images(); len(images) != 1 || len(images[0].Allocs) != 2 {
		t.Errorf("it has %v", images)
	}
}

// TestGangNodeIsSilent: while one allocation is frozen the other's node is
// lost: it is not waited for, and a node that does not say in time is named.
func TestGangNodeIsSilent(t *testing.T) {
	s := newGangSaver(t)
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveAsked})
	s.wantFrozen(1)
	s.saved("n1", 1, true)
	s.KeepSaved(context.Background(), time.Now())
	if s.now().Saving() == nil {
		t.Fatal("it is given up at once")
	}
	s.b.must(t, state.NodesLost{Names: []string{"n2"}})
	s.KeepSaved(context.Background(), time.Now())
	if saved := s.now().Saved; s.now().Saving() != nil || saved.Failed != "node n2 does not respond" {
		t.Fatalf("it says %q", saved.Failed)
	}
	if saves, _ := s.orderedSaves("n1"); len(saves) != 1 || !saves[0].Abandon {
		t.Errorf("node n1 is told %v", saves)
	}
}

// TestGangEndsMeanwhile: an allocation that is frozen for an abandoned image is
// told to continue before it is told to end.
func TestGangEndsMeanwhile(t *testing.T) {
	s := newGangSaver(t)
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveAsked})
	s.wantFrozen(1)
	s.saved("n1", 1, true)
	orders(s.nodes["n1"])
	s.b.must(t, state.CancelJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000})
	dispatch(s.Leader)
	if got := orders(s.nodes["n1"]); len(got) != 2 || !got[0].GetSaveAlloc().GetAbandon() || got[1].GetEndAlloc().GetGraceS() == 0 {
		t.Errorf("node n1 is told %v", got)
	}
}

// TestGangGoesOn: each node is asked about its own allocation. While one says no the job
// waits and says which; then all allocations are restored, and told to run together.
func TestGangGoesOn(t *testing.T) {
	s := newGangSaver(t)
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveAsked})
	s.wantFrozen(1)
	s.saved("n1", 1, true)
	s.saved("n2", 1, true)
	s.ended("n2", pb.EndCause_END_CAUSE_SUPERVISOR_DIED)
	s.ended("n1", pb.EndCause_END_CAUSE_CANCELLED)
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n1", "")
	s.answer("n2", "kernel")
	plan(t, s.Leader)
	overlay, _ := s.Overlay(s.job)
	if s.OverlaySaved(s.now(), &overlay); s.now().Phase != state.Waiting || overlay.Reason != "ImageNotRestorable" || !strings.Contains(overlay.Detail, "n2: kernel is another") {
		t.Fatalf("it waits for %+v", overlay)
	}
	clock := s.clock
	s.clock = func() time.Time { return clock().Add(noAnswerLasts) }
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n2", "")
	plan(t, s.Leader)
	for i, node := range []string{"n1", "n2"} {
		if order := s.told(node).GetStartAlloc(); order.GetRestore().GetNode() != node || order.GetAlloc().GetEpoch() != 2 || !order.GetGang() {
			t.Fatalf("allocation %d resumes from %v", i, order.GetRestore())
		}
	}
	alloc := &pb.AllocId{Job: s.job, Epoch: 2}
	for _, node := range []string{"n1", "n2"} {
		if got := s.told(node); got != nil {
			t.Fatalf("node %s is told %v, and not all are restored", node, got)
		}
		if err := s.Ready(context.Background(), s.nodes[node], &pb.AllocReady{Alloc: alloc}); err != nil {
			t.Fatal(err)
		}
		s.CommitReports(context.Background())
	}
	for _, node := range []string{"n1", "n2"} {
		s.NodeReported(node)
		if got := s.told(node); got.GetReleaseBatch() == nil {
			t.Errorf("node %s is told %v", node, got)
		}
	}
}

// TestGangCheckpointable: it is that of the allocation that is the most in the way, with its node.
func TestGangCheckpointable(t *testing.T) {
	s := newGangSaver(t)
	alloc := &pb.AllocId{Job: s.job, Epoch: 1}
	checkpointable := func() string {
		var overlay state.Overlay
		s.OverlaySaved(s.now(), &overlay)
		return overlay.Checkpointable + " " + overlay.CheckpointableReason
	}
	s.Checkpointable(s.nodes["n1"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_YES})
	if got := checkpointable(); got != "LIKELY " {
		t.Errorf("grade %q", got)
	}
	s.Checkpointable(s.nodes["n2"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: "a step runs"})
	if got := checkpointable(); got != "NOT_NOW node n2: a step runs" || s.savable(s.now()) {
		t.Errorf("grade %q", got)
	}
}
