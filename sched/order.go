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

// order is the turns of the jobs that may start, in Slurm's order, but first those on nodes
// that their accounts own: jobs that may preempt
// others before those, tier of the partition, priority of the job, and then the
// lower number. A job for several partitions has a turn in each, at its
// priority in that partition; within a tier and a priority they come in its
// order of preference.
func (p *pass) order(priorities *priorities) []entry {
	memory := p.scratch
	entries, keys := sized(&memory.entries, len(p.Waiting))[:0], sized(&memory.keys, len(p.Waiting))[:0]
	first, known := priorities.room()
	tiers := rankedTiers(p.Snapshot)
	p.ascending = true
	for i := range p.Waiting { // once: to look at a job takes longer than what is done with it
		if !known {
			first[i] = priorities.of(int32(i), 0)
		}
		if !p.enter(i) {
			continue
		}
		job := &p.Waiting[i]
		for choice, of := range tiers[job.Shape] {
			priority := first[i]
			if choice > 0 {
				priority = priorities.of(int32(i), choice)
			}
			entries = append(entries, entry{tier: of.tier, priority: priority, id: job.ID, choice: int32(choice), job: int32(i), shape: int32(job.Shape)})
			keys = append(keys, uint64(of.rank)<<32|uint64(^priority))
		}
	}
	memory.entries, memory.keys = entries, keys
	if entries = p.sorted(entries, keys); len(entries) == 0 || !entries[0].isOwn() {
		return preemptorsFirst(p.Snapshot, entries)
	}
	own := slices.IndexFunc(entries, func(e entry) bool { return !e.isOwn() })
	if own < 0 {
		own = len(entries)
	}
	return slices.Concat(preemptorsFirst(p.Snapshot, entries[:own]), preemptorsFirst(p.Snapshot, entries[own:]))
}

// rankedTier is the tier of a partition, and how many there are above it.
type rankedTier struct {
	tier uint64
	rank uint32
}

// rankedTiers are those of the partitions of each shape, in the order of its preference.
func rankedTiers(s *Snapshot) [][]rankedTier {
	all := make([]uint64, len(s.Partitions))
	for i := range s.Partitions {
		all[i] = s.Partitions[i].tier()
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	all = slices.Compact(all)
	count := 0
	for i := range s.Shapes {
		count += len(s.Shapes[i].Partitions)
	}
	tiers, memory := make([][]rankedTier, len(s.Shapes)), make([]rankedTier, 0, count)
	for i := range s.Shapes {
		from := len(memory)
		for _, partition := range s.Shapes[i].Partitions {
			tier := s.Partitions[partition].tier()
			memory = append(memory, rankedTier{tier, uint32(slices.Index(all, tier))})
		}
		tiers[i] = memory[from:]
	}
	return tiers
}

// turnsOf are the turns of one job.
func (p *pass) turnsOf(i int32, priorities *priorities) []entry {
	job := &p.Waiting[i]
	partitions := p.Shapes[job.Shape].Partitions
	entries := make([]entry, len(partitions))
	for choice, partition := range partitions {
		entries[choice] = entry{
			tier: p.Partitions[partition].tier(), priority: priorities.of(i, choice), id: job.ID, choice: int32(choice), job: i, shape: int32(job.Shape),
		}
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
