package sched

import (
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// scratch is memory of a pass that nothing refers to when the pass is over. There are a
// dozen lists with a place for each waiting job: fresh memory for them costs more than what
// is done with it, so one pass leaves it to the next, in the Memo. What is in it is never
// read: each list is cleared, or begins empty.
type scratch struct {
	used                  bool // by a pass that is not over
	left, behind          []uint32
	shapeOf               []int32
	hasPlan               []bool
	entries, otherEntries []entry
	keys, otherKeys       []uint64
	nodes, ahead          []place.Node
	profile, sure         profile.Profile // of future
}

// memory is what the pass before left, if no other has it.
func (m *Memo) memory() *scratch {
	memory := m.scratch
	if memory == nil || memory.used {
		memory = new(scratch)
	}
	memory.used = true
	return memory
}

// release leaves the memory of a pass to others. It may not be used any more then.
func (p *pass) release() *scratch {
	memory := p.scratch
	memory.used = false
	p.scratch, p.left, p.behind, p.hasPlan, p.shapeOf, p.nodes, p.future = nil, nil, nil, nil, nil, nil, nil
	return memory
}

// zeros is a list of so many zeros, in memory that is there if there is enough.
func zeros[V any](memory *[]V, count int) []V {
	list := sized(memory, count)
	clear(list)
	return list
}

// sized is a list of so many values, whatever they are.
func sized[V any](memory *[]V, count int) []V {
	if cap(*memory) < count {
		*memory = make([]V, count)
	}
	*memory = (*memory)[:count]
	return *memory
}
