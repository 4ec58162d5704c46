package leader

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file keeps the planned starts from one pass to the next. They are the leader's
// own, and a new leader makes a new plan.

// promisesFor are the planned starts of the last plan, for another snapshot. Starts on
// nodes or in partitions that are gone are left out.
func (last *lastPlan) promisesFor(snapshot *sched.Snapshot) sched.Promises {
	if last == nil || len(last.promises.Planned) == 0 {
		return sched.Promises{}
	}
	sameNodes := slices.EqualFunc(last.snapshot.Nodes, snapshot.Nodes, func(a, b place.Node) bool { return a.Name == b.Name })
	samePartitions := slices.EqualFunc(last.snapshot.Partitions, snapshot.Partitions, func(a, b sched.Partition) bool { return a.Name == b.Name })
	if sameNodes && samePartitions {
		return last.promises
	}
	moved := sched.Promises{Behind: last.promises.Behind}
	for _, planned := range last.promises.Planned {
		if last.find(&planned, snapshot) {
			moved.Planned = append(moved.Planned, planned)
		} else {
			// The counts of those behind are of other positions now.
			return sched.Promises{Planned: moved.Planned}
		}
	}
	return moved
}

// find gives a planned start the positions that its partition and its nodes have in another
// snapshot. It returns false where one is gone.
func (last *lastPlan) find(planned *sched.Planned, snapshot *sched.Snapshot) bool {
	partition := last.snapshot.Partitions[planned.Partition].Name
	planned.Partition = slices.IndexFunc(snapshot.Partitions, func(p sched.Partition) bool { return p.Name == partition })
	planned.Placement.Allocs = slices.Clone(planned.Placement.Allocs)
	for i := range planned.Placement.Allocs {
		alloc := &planned.Placement.Allocs[i]
		at, known := slices.BinarySearchFunc(snapshot.Nodes, last.snapshot.Nodes[alloc.Node].Name, func(n place.Node, name string) int {
			return strings.Compare(n.Name, name)
		})
		if !known {
			return false
		}
		alloc.Node = place.NodeIndex(at)
	}
	return planned.Partition >= 0
}

// plannedStart is when and where a job is planned to start; 0 = it is not planned.
func (last *lastPlan) plannedStart(job sched.JobID) (atMS int64, nodes string) {
	first := -1
	for i := range last.promises.Planned {
		planned := &last.promises.Planned[i]
		if planned.Job == job && (first < 0 || planned.StartMS < last.promises.Planned[first].StartMS) {
			first = i
		}
	}
	if first < 0 {
		return 0, ""
	}
	planned := &last.promises.Planned[first]
	names := make([]string, len(planned.Placement.Allocs))
	for i := range names {
		names[i] = last.snapshot.Nodes[planned.Placement.Allocs[i].Node].Name
	}
	return planned.StartMS, spec.FormatHostList(names)
}
