package place

import (
	"cmp"
	"slices"
)

// This file says what the nodes of a job have too little of together, though
// each of them has enough for itself.

// totals checks what the whole job needs against the best nodes it may have.
func (s *sieve) totals() Shortage {
	if s.units > 0 {
		if room := s.best(s.room); room < s.units {
			return s.unitsShort(room)
		}
	}
	if s.spread == 0 {
		return Shortage{}
	}
	most := uint64(0)
	for _, s.model = range s.models(s.pool) {
		most = max(most, s.best(func(n *Node) uint64 { _, gpus := s.capacity(n, s.free(n)); return gpus }))
	}
	if most < s.spread {
		return Shortage{What: GPUs, Name: s.Model, Need: s.spread, Have: most}
	}
	return Shortage{}
}

// unitsShort says of what there is too little for all units: devices, if there
// are too few of those, and else CPUs.
func (s *sieve) unitsShort(room uint64) Shortage {
	if s.unit.gpus > 0 {
		most := s.best(func(n *Node) uint64 { return min(s.free(n)/s.unit.gpus, s.units) * s.unit.gpus })
		if need := product(s.units, s.unit.gpus); most < need {
			return Shortage{What: GPUs, Name: s.Model, Need: need, Have: most}
		}
	}
	return Shortage{What: CPUs, Need: product(s.units, s.unit.cpus), Have: room * s.unit.cpus}
}

// best is the sum over as many nodes as the job may have, the largest first.
func (s *sieve) best(amount func(*Node) uint64) uint64 {
	amounts := make([]uint64, len(s.pool))
	for i, index := range s.pool {
		amounts[i] = amount(&s.nodes[index])
	}
	slices.SortFunc(amounts, func(a, b uint64) int { return cmp.Compare(b, a) })
	sum := uint64(0)
	for _, a := range amounts[:min(len(amounts), s.high)] {
		sum += a
	}
	return sum
}

// near checks that enough of the nodes are near each other: in a row, or on the
// switches that the job may use. What it says of switches is counted in nodes,
// also where tasks or devices decide.
func (s *sieve) near() Shortage {
	switch {
	case s.Contiguous:
		row, first := s.longestRow()
		return Shortage{What: Rows, Need: uint64(s.low), Have: uint64(row), HaveOn: first}
	case s.wired:
		have, on := s.mostOnSwitches()
		return Shortage{What: Leaves, Need: uint64(s.low), Have: uint64(have), HaveOn: on, Limit: s.Switches}
	}
	return Shortage{}
}

// longestRow is the most nodes of the pool that follow each other, and the
// first of them.
func (s *sieve) longestRow() (longest int, first string) {
	row := 0
	for i, index := range s.pool {
		if row++; i > 0 && s.pool[i-1] != index-1 {
			row = 1
		}
		if row > longest {
			longest, first = row, s.nodes[s.pool[i-row+1]].Name
		}
	}
	return longest, first
}

// mostOnSwitches is the most nodes of the pool below one switch, or on as many
// leaf switches as the request may use, and the best of these switches.
func (s *sieve) mostOnSwitches() (most int, on string) {
	below := make(map[*Switch]int)
	for _, index := range s.pool {
		for _, above := range s.nodes[index].Above {
			if s.Switches == 0 || above.Level == 0 {
				below[above]++
			}
		}
	}
	switches := make([]*Switch, 0, len(below))
	for of := range below {
		switches = append(switches, of)
	}
	slices.SortFunc(switches, func(a, b *Switch) int { return cmp.Or(below[b]-below[a], a.Index-b.Index) })
	for i, of := range switches {
		if i == 0 {
			on = of.Name
		}
		if i < max(int(s.Switches), 1) {
			most += below[of]
		}
	}
	return most, on
}
