package sched

import (
	"cmp"
	"iter"
	"slices"
)

// entry is a job's turn in one of its partitions.
type entry struct {
	tier     uint64 // of the partition: see Partition.tier
	priority uint32
	id       JobID
	choice   int32 // position in the shape's partitions
	job      int32 // position in Snapshot.Waiting
	shape    int32 // of the job
}

// isOwn reports whether the turn is one on nodes that the job's account owns.
func (e entry) isOwn() bool { return e.tier >= ownTurn }

// order is the turns of the jobs, in Slurm's order, but first those on nodes that
// their accounts own: jobs that may preempt
// others before those, tier of the partition, priority of the job, and then the
// lower number. A job for several partitions has a turn in each, at its
// priority in that partition; within a tier and a priority they come in its
// order of preference.
func order(s *Snapshot, jobs []int32, p *priorities, memory *scratch) []entry {
	entries := sized(&memory.entries, len(jobs))[:0]
	tiers := make([][]uint64, len(s.Shapes))
	for shape := range tiers {
		tiers[shape] = tiersOf(s, shape)
	}
	for _, i := range jobs {
		entries = appendTurns(entries, s, i, tiers[s.Waiting[i].Shape], p)
	}
	entries = sorted(entries, memory)
	own := 0
	for own < len(entries) && entries[own].tier >= ownTurn {
		own++
	}
	if own == 0 {
		return preemptorsFirst(s, entries)
	}
	return slices.Concat(preemptorsFirst(s, entries[:own]), preemptorsFirst(s, entries[own:]))
}

// tiersOf are those of the partitions of a shape, in the order of its preference.
func tiersOf(s *Snapshot, shape int) []uint64 {
	partitions := s.Shapes[shape].Partitions
	tiers := make([]uint64, len(partitions))
	for choice, partition := range partitions {
		tiers[choice] = s.Partitions[partition].tier()
	}
	return tiers
}

// appendTurns appends the turns of a job whose partitions have these tiers.
func appendTurns(entries []entry, s *Snapshot, i int32, tiers []uint64, p *priorities) []entry {
	job := &s.Waiting[i]
	for choice, tier := range tiers {
		priority := p.ofFirst()[i]
		if choice > 0 {
			priority = p.of(i, choice)
		}
		entries = append(entries, entry{tier: tier, priority: priority, id: job.ID, choice: int32(choice), job: i, shape: int32(job.Shape)})
	}
	return entries
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
