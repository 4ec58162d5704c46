package leader

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestPacks: a guest is saved once it has been parked for a while, and left alone
// between saves that fail, longer each time. With its image it ends, and waits to go on
// elsewhere.
func TestPacks(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{})
	ctx, began := context.Background(), time.Now()
	alloc := &pb.AllocId{Job: s.job, Epoch: 1}
	s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
	s.KeepSaved(ctx, began.Add(time.Hour))
	if s.now().Saving() != nil {
		t.Fatal("it is saved before it is parked")
	}
	if err := s.Suspended(ctx, s.nodes["n1"], &pb.AllocSuspended{Alloc: alloc, Number: 1, Frozen: true, Parked: true}); err != nil {
		t.Fatal(err)
	}
	s.CommitReports(ctx)
	due := packAfter
	for try := range uint32(4) {
		s.b.skew = due - time.Second
		s.KeepSaved(ctx, began.Add(s.b.skew))
		if s.now().Saving() != nil {
			t.Fatalf("try %d: saved %v after it was parked, a second too soon", try, s.b.skew)
		}
		s.b.skew = due + time.Second
		s.KeepSaved(ctx, began.Add(s.b.skew))
		saving := s.now().Saving()
		if saving == nil || saving.Number != try+1 || saving.Purpose != state.SavePack {
			t.Fatalf("try %d: after %v: %+v", try, s.b.skew, saving)
		}
		dispatch(s.Leader)
		var order *pb.SaveAlloc
		for _, message := range orders(s.nodes["n1"]) {
			if save := message.GetSaveAlloc(); save.GetNumber() == try+1 {
				order = save
			}
		}
		if order.GetThen() != pb.SaveThen_SAVE_THEN_FREEZE {
			t.Fatalf("try %d: the order is %v", try, order)
		}
		s.b.must(t, state.AllocsSaved{Reports: []state.SaveReport{{Job: s.job, Epoch: 1, Node: "n1", Number: try + 1, Error: "disk full"}}})
		if job := s.now(); !job.Suspended() || !job.Run.Allocs[0].Parked {
			t.Fatalf("try %d failed, and the job is %+v", try, job.Run)
		}
		due = 2*s.b.skew + time.Millisecond // as long again as it had been parked
	}
	s.b.skew = 3 * due
	s.KeepSaved(ctx, began.Add(s.b.skew))
	s.b.must(t, state.AllocsSaved{Reports: []state.SaveReport{{Job: s.job, Epoch: 1, Node: "n1", Number: 5, Digest: state.Digest{1}, Frozen: true}}})
	dispatch(s.Leader)
	for _, message := range orders(s.nodes["n1"]) {
		if message.GetEndAlloc() != nil {
			t.Errorf("with an image that no other node has it is told %v", message)
		}
	}
	s.KeepSaved(ctx, began.Add(s.b.skew))
	var fetch *pb.FetchImage
	for _, message := range orders(s.nodes["n2"]) {
		if message.GetFetchImage() != nil {
			fetch = message.GetFetchImage()
		}
	}
	if fetch.GetImage().GetNumber() != 5 || fetch.GetImage().GetNode() != "n1" {
		t.Fatalf("the other node is told to fetch %v", fetch)
	}
	if err := s.Fetched(ctx, s.nodes["n2"], &pb.ImageFetched{Image: fetch.Image}); err != nil {
		t.Fatal(err)
	}
	s.CommitReports(ctx)
	dispatch(s.Leader)
	var end *pb.EndAlloc
	for _, message := range orders(s.nodes["n1"]) {
		if message.GetEndAlloc() != nil {
			end = message.GetEndAlloc()
		}
	}
	if end == nil || end.GraceS != 0 || len(s.now().Images()) != 1 {
		t.Errorf("with its image it is told %v, and is %+v", end, s.now())
	}
}

// TestPacksOnlyWhatIsReclaimed: a parked job whose node is released is left to continue.
func TestPacksOnlyWhatIsReclaimed(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{})
	ctx := context.Background()
	s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
	s.b.must(t, state.AllocsSuspended{Reports: []state.SuspendReport{{Job: s.job, Epoch: 1, Node: "n1", Number: 1, Frozen: true, Parked: true}}})
	s.b.must(t, state.ReleaseNodes{Names: []string{"n1"}, Privileged: true})
	s.KeepSaved(ctx, time.Now().Add(time.Hour))
	if saving := s.now().Saving(); saving != nil {
		t.Errorf("it is saved: %+v", saving)
	}
}

// parked has nodes say that they have parked the job by an order.
func (s *saver) parked(number uint32, nodes ...string) {
	s.t.Helper()
	alloc := &pb.AllocId{Job: s.job, Epoch: 1}
	for _, node := range nodes {
		if err := s.Suspended(context.Background(), s.nodes[node], &pb.AllocSuspended{Alloc: alloc, Number: number, Frozen: true, Parked: true}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.CommitReports(context.Background())
}

// TestPacksGangs: of a job on several nodes one is reclaimed. When it is time to save it, the
// others are told to park it too, without a deadline; then all are saved together.
func TestPacksGangs(t *testing.T) {
	s := newGangSaver(t)
	ctx, began := context.Background(), time.Now()
	connect(t, s.Leader, s.b, "n3")
	s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
	if err := s.Suspended(ctx, s.nodes["n2"], &pb.AllocSuspended{Alloc: &pb.AllocId{Job: s.job, Epoch: 1}, Number: 1, Frozen: true}); err != nil {
		t.Fatal(err)
	}
	s.parked(1, "n1")
	orders(s.nodes["n2"])
	s.b.skew = packAfter + time.Second
	s.KeepSaved(ctx, began.Add(s.b.skew))
	dispatch(s.Leader)
	var park *pb.SuspendAlloc
	for _, message := range orders(s.nodes["n2"]) {
		if message.GetSuspendAlloc() != nil {
			park = message.GetSuspendAlloc()
		}
	}
	if park.GetNumber() != 2 || !park.GetPark() || park.GetWithinMs() != 0 || s.now().Saving() != nil {
		t.Fatalf("the other node is told %v, and the job is saved: %v", park, s.now().Saving())
	}
	s.parked(2, "n2")
	s.KeepSaved(ctx, began.Add(s.b.skew))
	if saving := s.now().Saving(); saving == nil || saving.Purpose != state.SavePack {
		t.Fatalf("it is saved for %+v", saving)
	}
	s.wantFrozen(1)
}

// TestPacksAtOnce: a guest that is parked on a machine which is about to be switched off is
// saved without a wait.
func TestPacksAtOnce(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{})
	ctx := context.Background()
	s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
	s.b.must(t, state.AllocsSuspended{Reports: []state.SuspendReport{{Job: s.job, Epoch: 1, Node: "n1", Number: 1, Frozen: true, Parked: true}}})
	s.KeepSaved(ctx, time.Now())
	if saving := s.now().Saving(); saving != nil {
		t.Fatalf("it is saved at once: %+v", saving)
	}
	s.b.must(t, state.LeavesFromMessage("n1", &pb.NodeLeaves{Why: "shuts down", WithinMs: 60_000}))
	s.KeepSaved(ctx, time.Now())
	if saving := s.now().Saving(); saving == nil || saving.Purpose != state.SavePack {
		t.Errorf("it is not saved: %+v", saving)
	}
}
