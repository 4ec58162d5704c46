package leader

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// saver is a leader with nodes n1 and n2, and a job that runs on one of them.
type saver struct {
	*Leader
	t     *testing.T
	b     *book
	nodes map[string]*session.Session
	job   uint32
}

func newSaver(t *testing.T, spec *pb.JobSpec) *saver {
	t.Helper()
	l, b := begin(t)
	s := &saver{Leader: l, t: t, b: b, nodes: map[string]*session.Session{}}
	for _, node := range []string{"n1", "n2"} {
		s.nodes[node] = connect(t, l, b, node)
	}
	spec.Name, spec.Script, spec.WorkDirectory, spec.MemoryPerNodeBytes = "j", []byte("#!/bin/sh\n"), "/", 1<<20
	command, err := state.SubmitFromSpec(spec, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	s.job = b.must(t, command).JobID
	plan(t, l)
	s.ready("n1")
	return s
}

// ready has the job's allocation be up on a node, which could save it.
func (s *saver) ready(node string) {
	s.t.Helper()
	alloc := &pb.AllocId{Job: s.job, Epoch: s.now().Epoch}
	if err := s.Ready(context.Background(), s.nodes[node], &pb.AllocReady{Alloc: alloc}); err != nil {
		s.t.Fatal(err)
	}
	s.CommitReports(context.Background())
	s.Checkpointable(s.nodes[node], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_LIKELY})
	dispatch(s.Leader)
	orders(s.nodes[node])
}

func (s *saver) now() *state.Job {
	job, _ := s.b.View().Job(s.job)
	return job
}

// told is what a node is ordered next; nil = nothing.
func (s *saver) told(node string) *pb.ControllerMessage {
	s.t.Helper()
	dispatch(s.Leader)
	switch got := orders(s.nodes[node]); len(got) {
	case 0:
		return nil
	case 1:
		return got[0]
	default:
		s.t.Fatalf("node %s is told %v", node, got)
		return nil
	}
}

func (s *saver) saved(node string, number uint32, stands bool) {
	s.t.Helper()
	alloc := &pb.AllocId{Job: s.job, Epoch: s.now().Epoch}
	digest := sha256.Sum256([]byte(fmt.Sprint(number, node)))
	message := &pb.AllocSaved{Alloc: alloc, Number: number, Frozen: stands, StandingMs: 200, PackMs: 1000, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_YES,
		Image: &pb.Image{Alloc: alloc, Number: number, Digest: digest[:], Node: node, Bytes: 5}}
	if err := s.Saved(context.Background(), s.nodes[node], message); err != nil {
		s.t.Fatal(err)
	}
	s.CommitReports(context.Background())
}

func (s *saver) ended(node string, cause pb.EndCause) {
	s.t.Helper()
	s.endedAs(node, s.now().Epoch, cause)
}

// endedAs is ended of another run than the job's.
func (s *saver) endedAs(node string, epoch uint32, cause pb.EndCause) {
	s.t.Helper()
	if err := s.Ended(context.Background(), s.nodes[node], &pb.AllocEnded{Alloc: &pb.AllocId{Job: s.job, Epoch: epoch}, Cause: cause}); err != nil {
		s.t.Fatal(err)
	}
	s.CommitReports(context.Background())
	orders(s.nodes[node])
}

// lostFrozen has the job lose the allocation that is frozen on n1 to be moved
// to n2: it waits, with its image.
func (s *saver) lostFrozen() {
	s.t.Helper()
	successor := s.now().Successor().Epoch
	s.ended("n1", pb.EndCause_END_CAUSE_SUPERVISOR_DIED)
	s.endedAs("n2", successor, pb.EndCause_END_CAUSE_UNKNOWN_ALLOC)
}

// answer answers what a node was asked about an image.
func (s *saver) answer(node string, property string) {
	s.t.Helper()
	for _, order := range orders(s.nodes[node]) {
		if ask := order.GetAskRestore(); ask != nil {
			s.Restores(s.nodes[node], &pb.RestoreAnswer{Token: ask.Token, Can: property == "", Property: property, Reason: property + " is another"})
			return
		}
	}
	s.t.Fatalf("node %s was not asked", node)
}

// TestRestoredWhereThatFailed: a job whose restore failed on the only node that can
// continue with it is tried there again.
func TestRestoredWhereThatFailed(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{})
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveMove, To: []string{"n2"}})
	s.told("n1")
	s.saved("n1", 1, true)
	s.lostFrozen()
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n2", "")
	plan(t, s.Leader)
	s.ended("n2", pb.EndCause_END_CAUSE_RESTORE_FAILED)
	s.KeepSaved(context.Background(), time.Now())
	plan(t, s.Leader)
	if job := s.now(); job.Phase != state.Waiting {
		t.Fatalf("it is tried again on node %s, and node n1 has not said that it cannot", job.Run.BatchHost())
	}
	s.answer("n1", "kernel")
	plan(t, s.Leader)
	if job := s.now(); job.Phase != state.Running || job.Run.BatchHost() != "n2" {
		t.Fatalf("it waits in phase %d, and node n2 can resume it", job.Phase)
	}
}

// TestImageGone: the node that should have an image says that it does not, so
// the job starts over.
func TestImageGone(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{Requeue: true})
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveMove})
	s.told("n1")
	s.saved("n1", 1, true)
	s.lostFrozen()
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n1", "image")
	s.answer("n2", "image")
	s.KeepSaved(context.Background(), time.Now())
	if job := s.now(); len(job.Images()) != 0 || !strings.Contains(job.Detail, "starts over") {
		t.Fatalf("it has %v: %s", job.Images(), job.Detail)
	}
	plan(t, s.Leader)
	if job := s.now(); job.Phase != state.Running || job.Run.Restore != nil {
		t.Errorf("it is in phase %d", job.Phase)
	}
}

// TestIntervals: what asked to be saved every now and then is, as often as it
// asked, if its node says that it can be.
func TestIntervals(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{Checkpoint: &pb.CheckpointPolicy{IntervalS: 600}})
	start := time.UnixMilli(s.now().Run.StartMS)
	due := func(after time.Duration) bool { return len(s.dueSaves(s.b.View(), start.Add(after))) > 0 }
	if due(599*time.Second) || !due(601*time.Second) {
		t.Error("it is not due after its interval")
	}
	alloc := &pb.AllocId{Job: s.job, Epoch: 1}
	s.Checkpointable(s.nodes["n1"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: "it is connected to another machine"})
	if due(601 * time.Second) {
		t.Error("it is due though it cannot be saved")
	}
	s.Checkpointable(s.nodes["n1"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: "the disk was full", Tried: true})
	if !due(601 * time.Second) {
		t.Error("a save that failed is never tried again")
	}
	s.Checkpointable(s.nodes["n1"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: "it is connected to another machine"})
	var overlay state.Overlay
	if s.OverlaySaved(s.now(), &overlay); overlay.Checkpointable != "NOT_NOW" || overlay.CheckpointableReason != "it is connected to another machine" || overlay.IntervalS != 600 {
		t.Errorf("it says %+v", overlay)
	}
	s.Checkpointable(s.nodes["n1"], &pb.AllocCheckpointable{Alloc: alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_YES})
	suspended := []state.Target{{Job: s.job}}
	s.b.must(t, state.SuspendJobs{Targets: suspended, Privileged: true})
	if due(601 * time.Second) {
		t.Error("it is due though it is suspended, which the state refuses each time that it is asked")
	}
	s.b.must(t, state.ResumeJobs{Targets: suspended, Privileged: true})
	s.b.must(t, state.ContinueJobs{Orders: []state.ContinueOrder{{Job: s.job, Epoch: 1, Number: s.now().Run.SuspendNumber}}})
	s.told("n1")
	s.KeepSaved(context.Background(), start.Add(601*time.Second))
	if order := s.told("n1").GetSaveAlloc(); order.GetThen() != pb.SaveThen_SAVE_THEN_RESUME {
		t.Fatalf("the order: %v", order)
	}
	// Its node never says how it ended.
	s.KeepSaved(context.Background(), start.Add(2*time.Hour))
	if saved := s.now().Saved; s.now().Saving() != nil || saved.FailedNumber != 1 {
		t.Errorf("%+v", saved)
	}
	if order := s.told("n1").GetSaveAlloc(); !order.GetAbandon() || order.GetNumber() != 1 {
		t.Errorf("told %v", order)
	}
}

// TestIntervalAuto: the interval is computed from what saving cost, and how often
// the node was lost.
func TestIntervalAuto(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{Requeue: true, Checkpoint: &pb.CheckpointPolicy{IntervalAuto: true}})
	every := func() time.Duration { return intervalOf(s.b.View(), s.now(), time.Now()) }
	guess := every()
	s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: state.SaveAsked})
	s.saved("n1", 1, false)
	measured := every()
	if guess < time.Hour || measured >= guess || measured < time.Minute {
		t.Errorf("every %v before it was measured, %v after", guess, measured)
	}
	s.ended("n1", pb.EndCause_END_CAUSE_SUPERVISOR_DIED)
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n1", "")
	plan(t, s.Leader)
	if lossy := every(); lossy >= measured {
		t.Errorf("every %v on a node that was lost once, %v before", lossy, measured)
	}
}

// TestIntervalOfGuests: a guest is saved more often on a node that its owner takes more
// often, where that costs it its run; a job of the owner's is not.
func TestIntervalOfGuests(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{Requeue: true, Checkpoint: &pb.CheckpointPolicy{IntervalAuto: true}})
	now := time.UnixMilli(s.b.View().TimeMS())
	every := func() time.Duration { return intervalOf(s.b.View(), s.now(), now) }
	before := every()
	s.b.must(t, state.ReclaimNodes{Names: []string{"n2"}, WithinMS: 60_000, Privileged: true})
	if every() != before {
		t.Errorf("another node was taken, and it is saved every %v, before %v", every(), before)
	}
	s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
	s.b.must(t, state.ReleaseNodes{Names: []string{"n1"}, Privileged: true})
	node, _ := s.b.View().Node("n1")
	taken, lost := s.b.View().TakenPerWeek(s.now(), node, now.UnixMilli())
	if every() >= before || taken == 0 || lost == 0 {
		t.Errorf("its node was taken, and it is saved every %v, before %v: taken %d, lost %d", every(), before, taken, lost)
	}
	var overlay state.Overlay
	if s.OverlaySaved(s.now(), &overlay); overlay.MeanBetweenLossesS == 0 || overlay.MeanBetweenLossesS > 30*24*3600 {
		t.Errorf("it is said to lose its run every %d s", overlay.MeanBetweenLossesS)
	}
}
