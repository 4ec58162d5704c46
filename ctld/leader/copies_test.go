package leader

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// toldToFetch is the node that is told to fetch an image now; "" = none is.
func (s *saver) toldToFetch() (node string, image *pb.Image) {
	s.t.Helper()
	for name := range s.nodes {
		for _, message := range orders(s.nodes[name]) {
			fetch := message.GetFetchImage()
			switch {
			case fetch == nil:
			case node != "":
				s.t.Fatalf("nodes %s and %s are told to fetch image %d", node, name, fetch.GetImage().GetNumber())
			default:
				node, image = name, fetch.GetImage()
			}
		}
	}
	return node, image
}

// TestCopiesInBadWeather: a node that is lost while it fetches the image of a parked guest, or
// whose store is full, is replaced by another; the guest stays parked until one has it.
func TestCopiesInBadWeather(t *testing.T) {
	for name, lost := range map[string]bool{"the node is lost": true, "its store is full": false} {
		t.Run(name, func(t *testing.T) {
			s := newSaver(t, &pb.JobSpec{})
			ctx, now := context.Background(), time.Now()
			s.nodes["n3"] = connect(t, s.Leader, s.b, "n3")
			s.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 60_000, Privileged: true})
			s.parked(1, "n1")
			s.b.must(t, state.SaveJobs{Targets: []state.Target{{Job: s.job}}, Privileged: true, Purpose: state.SavePack})
			s.saved("n1", 1, true)
			s.KeepSaved(ctx, now)
			first, image := s.toldToFetch()
			if first == "" || first == "n1" {
				t.Fatalf("node %q is told to fetch it", first)
			}
			s.KeepSaved(ctx, now)
			if again, _ := s.toldToFetch(); again != "" {
				t.Fatalf("node %s is told too", again)
			}
			if lost {
				s.b.must(t, state.NodesLost{Names: []string{first}})
				s.sessions.Disconnect(s.nodes[first])
				delete(s.nodes, first)
			} else if err := s.Fetched(ctx, s.nodes[first], &pb.ImageFetched{Image: image, Error: "no room"}); err != nil {
				t.Fatal(err)
			}
			s.KeepSaved(ctx, now)
			second, image := s.toldToFetch()
			if second == "" || second == first || second == "n1" {
				t.Fatalf("node %q is told to fetch it after %s", second, first)
			}
			if job := s.now(); !job.Suspended() || job.Run.Suspension.Packed != 1 {
				t.Fatalf("it is %+v", job.Run)
			}
			if err := s.Fetched(ctx, s.nodes[second], &pb.ImageFetched{Image: image}); err != nil {
				t.Fatal(err)
			}
			s.CommitReports(ctx)
			if job := s.now(); job.Phase != state.Ending || !job.End.Frozen || !job.End.Requeue {
				t.Errorf("its image is off the node, and it is %+v", job)
			}
		})
	}
}
