package sched

import "sync"

// scratch is memory of a pass that nothing refers to when the pass is over. There are a
// dozen lists with a place for each waiting job: fresh memory for them costs more than what
// is done with it, so one pass leaves it to another. What is in it is never read: each list
// is cleared, or begins empty.
type scratch struct {
	left, behind          []uint32
	ready, shapeOf        []int32
	hasPlan               []bool
	entries, otherEntries []entry
	keys, otherKeys       []uint64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

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
