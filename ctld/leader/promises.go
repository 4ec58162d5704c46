package leader

import (
	"cmp"
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
	if last == nil || len(last.promises.Planned)+len(last.promises.Lost) == 0 {
		return sched.Promises{}
	}
	sameNodes := slices.EqualFunc(last.snapshot.Nodes, snapshot.Nodes, func(a, b place.Node) bool { return a.Name == b.Name })
	samePartitions := slices.EqualFunc(last.snapshot.Partitions, snapshot.Partitions, func(a, b sched.Partition) bool { return a.Name == b.Name })
	if sameNodes && samePartitions {
		return last.promises
	}
	moved := sched.Promises{Behind: last.promises.Behind, Lost: last.promises.Lost}
	for _, planned := range last.promises.Planned {
		if last.find(&planned, snapshot) {
			moved.Planned = append(moved.Planned, planned)
		} else {
			// The counts of those behind are of other positions now.
			return sched.Promises{Planned: moved.Planned, Lost: moved.Lost}
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

// planned is when a job is planned to start; nil = it is not.
func (last *lastPlan) planned(job sched.JobID) (first *sched.Planned) {
	for i := range last.promises.Planned {
		planned := &last.promises.Planned[i]
		if planned.Job == job && (first == nil || planned.StartMS < first.StartMS) {
			first = planned
		}
	}
	return first
}

// nodesOf are those of a planned start.
func (last *lastPlan) nodesOf(planned *sched.Planned) string {
	names := make([]string, len(planned.Placement.Allocs))
	for i := range names {
		names[i] = last.snapshot.Nodes[planned.Placement.Allocs[i].Node].Name
	}
	return spec.FormatHostList(names)
}

// lost is why a job has no planned start any more; zero = it had none, or has one.
func (last *lastPlan) lost(job sched.JobID) sched.Moved {
	at, is := slices.BinarySearchFunc(last.promises.Lost, job, func(l sched.Lost, job sched.JobID) int { return cmp.Compare(l.Job, job) })
	if !is {
		return sched.Moved{}
	}
	return last.promises.Lost[at].Moved
}
