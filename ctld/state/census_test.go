package state

import (
	"testing"
)

// TestCensus counts a state that lives, and compares with what each record
// says of itself.
func TestCensus(t *testing.T) {
	w, s := newWalker(3), New()
	running := uint64(0)
	for n := range 2000 {
		entry, err := Encode(w.next(s.View()), RequestID{}, int64(n)*100)
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, s, uint64(n)+1, entry)
		if n%50 != 0 {
			continue
		}
		view := s.View()
		census, want, sum := view.Census(), Census{}, PartitionCensus{}
		for job := range view.Jobs(0) {
			tasks := uint64(job.TaskCount())
			switch {
			case job.Phase == Finished:
			case !job.HoldsNodes():
				want.Waiting += tasks
				if job.Priority() == 0 {
					want.Held += tasks
				}
			case job.Completing():
				want.Ending += tasks
			default:
				want.Running += tasks
			}
		}
		for _, in := range census.Partitions {
			sum.Waiting, sum.Running, sum.Ending = sum.Waiting+in.Waiting, sum.Running+in.Running, sum.Ending+in.Ending
		}
		running += want.Running
		if census.Waiting != want.Waiting || census.Held != want.Held || census.Running != want.Running || census.Ending != want.Ending {
			t.Fatalf("entry %d: %+v, want %+v", n, census, want)
		}
		if sum != (PartitionCensus{want.Waiting, want.Running, want.Ending}) {
			t.Fatalf("entry %d: the partitions %+v do not add up to %+v", n, census.Partitions, want)
		}
		if counts := view.Counts(); int(census.Nodes) != counts.Nodes || int(census.NodesRegistered) > counts.Nodes {
			t.Fatalf("entry %d: %+v, want %+v", n, census, counts)
		}
	}
	if running == 0 {
		t.Error("nothing ran: the walk goes nowhere")
	}
}

// TestCensusOfImages: those that are kept count, of jobs that wait and that run.
func TestCensusOfImages(t *testing.T) {
	c := Census{Partitions: map[string]PartitionCensus{}}
	for _, images := range [][]Image{nil, {{Allocs: []ImageAlloc{{Bytes: 5}}}}, {{Allocs: []ImageAlloc{{Bytes: 7}}}, {Allocs: []ImageAlloc{{Bytes: 6}, {Bytes: 5}}}}} {
		c.countJob(&Job{Spec: &Spec{}, Saved: &Saved{Images: images}})
	}
	c.countJob(&Job{Spec: &Spec{}})
	if c.Images != 3 || c.ImageBytes != 23 {
		t.Errorf("%+v", c)
	}
}
