package sched

import (
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TestStanding: who comes first, what is short, and who holds nodes, of a job behind
// another on two nodes of which one is taken.
func TestStanding(t *testing.T) {
	cpus := place.FirstCPUs(4)
	node := func(name string) place.Node {
		return place.Node{Name: name, Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 8 << 30, FreeMemory: 8 << 30, TmpOpen: true}
	}
	s := Snapshot{
		NowMS: 1_000_000, Nodes: []place.Node{node("n1"), node("n2"), node("n3")}, Backfill: BackfillPolicy{On: true},
		Partitions: []Partition{
			{Name: "main", Up: true, Nodes: []place.NodeIndex{0, 1}, MaxTimeS: Unlimited, QOS: -1},
			{Name: "other", Up: true, Nodes: []place.NodeIndex{2}, MaxTimeS: Unlimited, QOS: -1},
		},
	}
	request := place.Request{MinNodes: 1, MaxNodes: 1, CPUsPerTask: 4, MemoryPerNode: 1 << 30}
	placement, _ := place.Find(s.Nodes, []place.NodeIndex{0}, request)
	place.Take(s.Nodes, placement, false)
	elsewhere, _ := place.Find(s.Nodes, []place.NodeIndex{2}, request)
	place.Take(s.Nodes, elsewhere, false)
	s.Running = []Running{
		{ID: 1, StartMS: 1_000_000, TimeLimitS: 60, Placement: placement, Association: -1, QOS: -1},
		{ID: 2, StartMS: 1_000_000, TimeLimitS: 30, Placement: elsewhere, Association: -1, QOS: -1},
	}
	two := request
	two.MinNodes, two.MaxNodes = 2, 2
	s.Shapes = []Shape{{Partitions: []int{0}, TimeLimitS: 600, Request: two}, {Partitions: []int{0}, TimeLimitS: 600, Request: request}, {Partitions: []int{1}, TimeLimitS: 600, Request: request}}
	s.Waiting = []Job{
		{ID: 10, Tasks: 1, Shape: 2, Association: -1, QOS: -1},
		{ID: 11, Tasks: 1, Shape: 0, Association: -1, QOS: -1},
		{ID: 12, Tasks: 1, Shape: 1, Association: -1, QOS: -1, Held: HeldByUser},
		{ID: 13, Tasks: 1, Shape: 1, Association: -1, QOS: -1},
		{ID: 14, Tasks: 1, Shape: 1, Association: -1, QOS: -1},
	}
	of := func(id JobID) Standing {
		standing, waits := StandingOf(s, id)
		if !waits {
			t.Fatalf("job %d does not wait", id)
		}
		return standing
	}
	// Job 10 waits for another node, and job 12 is held: neither is in the way.
	if got := of(14); !slices.Equal(got.Ahead, []JobID{11, 13}) || len(got.Short) != 1 || got.Short[0].Code != ReasonNone || got.Kept != ReasonNone {
		t.Errorf("job 14: %+v", got)
	}
	got := of(11)
	if len(got.Ahead) != 0 || got.Short[0].Code != ReasonResources || got.Short[0].Lack.Short.What != place.CPUs {
		t.Errorf("job 11: %+v", got)
	}
	if len(got.Holders) != 1 || got.Holders[0].Job != 1 || got.Holders[0].EndMS != 1_060_000 || !slices.Equal(got.Holders[0].Nodes, []place.NodeIndex{0}) {
		t.Errorf("job 11 is held up by %+v", got.Holders)
	}
	if got := of(12); got.Kept != ReasonJobHeldUser || len(got.Ahead) != 0 {
		t.Errorf("job 12: %+v", got)
	}
	if _, waits := StandingOf(s, 99); waits {
		t.Error("a job that is not there waits")
	}
}
