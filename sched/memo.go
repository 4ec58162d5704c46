package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// Memo is what one pass leaves for the next. The zero Memo is always right.
type Memo struct {
	// verdicts hold for these nodes and partitions, whatever is free on them.
	verdicts   verdicts
	nodes      []place.Node
	partitions []Partition
	scratch    *scratch
}

// memo keeps the verdicts of this pass only, so that it does not grow with
// requests that are long gone.
func (j *feasibility) memo() Memo {
	return Memo{verdicts: j.given, nodes: j.Nodes, partitions: j.wholes()}
}

// describes reports whether the memo's verdicts hold for a snapshot.
func (m Memo) describes(s *Snapshot) bool {
	return slices.EqualFunc(m.nodes, s.Nodes, sameInventory) &&
		slices.EqualFunc(m.partitions, s.wholes(), func(a, b Partition) bool {
			return slices.Equal(a.Nodes, b.Nodes)
		})
}

// sameInventory compares what verdicts depend on: everything but what is free.
func sameInventory(a, b place.Node) bool {
	return a.Name == b.Name && a.Available == b.Available &&
		a.MemoryBytes == b.MemoryBytes && a.TmpBytes == b.TmpBytes && a.TmpPerCPU == b.TmpPerCPU && a.TmpOpen == b.TmpOpen && a.CPUs.Equal(b.CPUs) &&
		slices.Equal(a.Features, b.Features) && place.SameNetwork(a, b) && place.SameGuests(a, b) &&
		equalDevices(a.Devices, b.Devices, func(a, b place.Device) bool {
			return a.Model == b.Model && a.Healthy == b.Healthy && a.Parent == b.Parent && a.Shares == b.Shares && a.Kept == b.Kept
		})
}

// equalDevices compares lists that are mostly the same in memory, because nothing has
// changed on the node.
func equalDevices(a, b []place.Device, equal func(a, b place.Device) bool) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.EqualFunc(a, b, equal)
}
