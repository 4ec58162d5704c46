package leader

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestEvacuates: a job on a node that is to be empty moves if another node has room, and
// is saved otherwise; it is left alone for a while after a save that failed, and ends at
// the deadline if it is still there.
func TestEvacuates(t *testing.T) {
	for name, room := range map[string]bool{"room elsewhere": true, "no room": false} {
		t.Run(name, func(t *testing.T) {
			s := newSaver(t, &pb.JobSpec{Requeue: true})
			ctx, began := context.Background(), time.Now()
			if !room {
				s.b.must(t, state.UpdateNodes{Names: []string{"n2"}, Action: state.DrainNode, Reason: "test"})
			}
			s.KeepSaved(ctx, began)
			if s.now().Saving() != nil || s.now().Moving() != nil {
				t.Fatal("it leaves a node that is not to be empty")
			}
			s.b.must(t, state.UpdateNodes{Names: []string{"n1"}, Action: state.DrainNode, Reason: "test", Evacuate: true, WithinMS: 600_000})
			s.KeepSaved(ctx, began)
			saving := s.now().Saving()
			if want := map[bool]state.SavePurpose{true: state.SaveMove, false: state.SaveEvacuation}[room]; saving == nil || saving.Purpose != want {
				t.Fatalf("it is saved for %+v, want %v", saving, want)
			}
			s.b.must(t, state.AllocsSaved{Reports: []state.SaveReport{{Job: s.job, Epoch: 1, Node: "n1", Number: saving.Number, Error: "disk full"}}})
			s.KeepSaved(ctx, time.Now().Add(evacuateAgain/2))
			if saving := s.now().Saving(); saving != nil {
				t.Fatalf("it is saved again at once: %+v", saving)
			}
			s.b.skew = evacuateAgain + time.Second
			s.KeepSaved(ctx, time.Now().Add(s.b.skew))
			if s.now().Saving() == nil {
				t.Fatal("it is not saved again")
			}
			s.b.skew = 601 * time.Second
			s.KeepSaved(ctx, time.Now().Add(s.b.skew))
			if job := s.now(); job.Phase != state.Ending || !job.End.Requeue {
				t.Fatalf("at the deadline it is %+v", job)
			}
		})
	}
}

// TestEvacuatesGangs: one node of a job on several is to be empty, and there is no room for
// it on others. It is saved as one, and its run ends when that node's part is elsewhere.
func TestEvacuatesGangs(t *testing.T) {
	s := newGangSaver(t)
	ctx, began := context.Background(), time.Now()
	s.b.must(t, state.UpdateNodes{Names: []string{"n1"}, Action: state.DrainNode, Reason: "test", Evacuate: true})
	s.KeepSaved(ctx, began)
	if saving := s.now().Saving(); saving == nil || saving.Purpose != state.SaveEvacuation {
		t.Fatalf("it is saved for %+v", saving)
	}
	s.wantFrozen(1)
	s.saved("n1", 1, true)
	s.saved("n2", 1, true)
	if _, ends := s.orderedSaves("n2"); ends || s.now().Run.Away == nil {
		t.Fatal("it ends before its image is off the node")
	}
	s.KeepSaved(ctx, began)
	var fetch *pb.FetchImage
	for _, message := range orders(s.nodes["n2"]) {
		if message.GetFetchImage() != nil {
			fetch = message.GetFetchImage()
		}
	}
	if fetch.GetImage().GetNode() != "n1" {
		t.Fatalf("the other node is told to fetch %v", fetch)
	}
	if err := s.Fetched(ctx, s.nodes["n2"], &pb.ImageFetched{Image: fetch.Image}); err != nil {
		t.Fatal(err)
	}
	s.CommitReports(ctx)
	for _, node := range []string{"n1", "n2"} {
		if _, ends := s.orderedSaves(node); !ends {
			t.Errorf("its part on node %s does not end", node)
		}
	}
}
