package sched

import (
	"reflect"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TestMemoOfOwnParts: what a pass remembers of the nodes of one owner is not taken for
// those of another.
func TestMemoOfOwnParts(t *testing.T) {
	s := crowded(4)
	s.Running, s.Preemption = nil, PreemptionPolicy{}
	s.Owners = [][]place.NodeIndex{{0}, {1, 2}}
	for i := range s.Nodes {
		s.Nodes[i] = place.Idle(s.Nodes[i], true)
	}
	s.Shapes = []Shape{{Partitions: []int{0}, Request: place.Request{MinNodes: 2, GPUsPerNode: 8, MemoryPerCPU: 1 << 30}}}
	memo := Memo{}
	for _, owner := range []int32{1, 2, 1} {
		s.Waiting = []Job{{ID: 7, Tasks: 1, Owner: owner}, {ID: 8, Tasks: 1, FixedPriority: 1}, {ID: 9, Tasks: 1, FixedPriority: 1 << 31}}
		want, _ := Schedule(s, Memo{})
		var got Plan
		if got, memo = Schedule(s, memo); !reflect.DeepEqual(got, want) {
			t.Fatalf("owner %d: %+v, without the memo %+v", owner, got, want)
		}
		if first := nodesOf(want.Starts[0].Placement); (owner == 2) != (want.Starts[0].Job == 7 && first[0] == 1 && first[1] == 2) {
			t.Fatalf("owner %d: job %d starts first, on nodes %v", owner, want.Starts[0].Job, first)
		}
	}
}

// TestParkedInACircle: two gangs that are guests of each other's owners on one node each,
// and both suspended, have their turns.
func TestParkedInACircle(t *testing.T) {
	s := crowded(2)
	s.Running, s.Preemption, s.Owners = nil, PreemptionPolicy{}, [][]place.NodeIndex{{0}, {1}}
	for i := range s.Nodes {
		s.Nodes[i] = place.Idle(s.Nodes[i], true)
	}
	for id := range JobID(2) {
		placement, _, _ := place.Fit(s.Nodes, s.Partitions[0].Nodes, place.Request{MinNodes: 2, GPUsPerNode: 4, MemoryPerCPU: 1 << 30})
		place.Take(s.Nodes, placement, false)
		s.Running = append(s.Running, Running{ID: id + 1, Placement: placement, Owner: int32(id) + 1, Suspended: true, Continues: true})
	}
	if plan, _ := Schedule(s, Memo{}); len(plan.Continues) != 2 {
		t.Errorf("%v continue", plan.Continues)
	}
}

// TestAbsent: a job that is parked on one of its nodes is still on the others.
func TestAbsent(t *testing.T) {
	on := make(occupants, 2)
	on.add(0, place.Placement{Allocs: []place.Alloc{{Node: 0}, {Node: 1}}, User: 7}, true)
	gone := absent{gone: make([]bool, 1)}
	gone.park(0, []place.NodeIndex{1})
	if stays := on.without(&gone); len(stays(0)) != 1 || len(stays(1)) != 0 {
		t.Errorf("on the first node %v, on the second %v", stays(0), stays(1))
	}
	gone.back(0)
	if stays := on.without(&gone); len(stays(1)) != 1 {
		t.Error("it is not back")
	}
}
