package sched

import (
	"cmp"
	"iter"
	"slices"
)

// entry is a job's turn in one of its partitions.
type entry struct {
	tier     uint32
	priority uint32
	id       JobID
	choice   int32 // position in the shape's partitions
	job      int32 // position in Snapshot.Waiting
}

// order is the turns of the jobs, in Slurm's order: jobs that may preempt
// others before those, tier of the partition, priority of the job, and then the
// lower number. A job for several partitions has a turn in each, at its
// priority in that partition; within a tier and a priority they come in its
// order of preference.
func order(s *Snapshot, jobs []int32, p *priorities) []entry {
	entries := make([]entry, 0, len(jobs))
	for _, i := range jobs {
		job := &s.Waiting[i]
		for choice, partition := range s.Shapes[job.Shape].Partitions {
			entries = append(entries, entry{
				tier:     s.Partitions[partition].PriorityTier,
				priority: p.of(i, choice),
				id:       job.ID,
				choice:   int32(choice),
				job:      i,
			})
		}
	}
	slices.SortFunc(entries, compareEntries)
	return preemptorsFirst(s, entries)
}

// compareEntries decides most comparisons by the first two fields; comparing
// all four each time would take twice as long.
func compareEntries(a, b entry) int {
	if a.tier != b.tier {
		return cmp.Compare(b.tier, a.tier)
	}
	if a.priority != b.priority {
		return cmp.Compare(b.priority, a.priority)
	}
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.choice, b.choice))
}

// turns cuts the order into a job's turns of one tier.
func turns(entries []entry) iter.Seq[[]entry] {
	return func(yield func([]entry) bool) {
		for len(entries) > 0 {
			n := 1
			for n < len(entries) && entries[n].job == entries[0].job && entries[n].tier == entries[0].tier {
				n++
			}
			if !yield(entries[:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}
