package place

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// shortage says why a request does not fit: the first thing, in the order of
// the checks below, of which the nodes that passed the checks before have too
// little. Only nodes that pass one check are asked the next, so that "no node
// has 8 CPUs free" is said of those that have the GPUs. Of alternatives ("[a|b]")
// it is about the one that passed the most checks, and then has the most.
func shortage(nodes []Node, candidates []NodeIndex, r Request) Shortage {
	var best Shortage
	furthest := -1
	for _, constraint := range r.Constraint.alternatives() {
		one := r
		one.Constraint = constraint
		w := newWant(nodes, &one)
		short, passed := w.shortage(candidates)
		if passed > furthest || passed == furthest && short.What == best.What && short.Have > best.Have {
			best, furthest = short, passed
		}
	}
	if best.What == Feature && len(r.Constraint.OneOf) > 0 && best.Among == AllNodes {
		best.Name = r.Constraint.oneOfText()
	}
	return best
}

// shortage is the first thing that is short, and how many checks were passed.
func (w *want) shortage(candidates []NodeIndex) (short Shortage, passed int) {
	pool := sieve{want: w, low: w.low}
	required := sieve{want: w, low: len(w.RequiredNodes), among: NamedNodes}
	for _, index := range candidates {
		n := &w.nodes[index]
		if _, is := slices.BinarySearch(w.ExcludedNodes, n.Name); is || !w.among(n) {
			continue
		}
		pool.pool = append(pool.pool, index)
		if _, is := slices.BinarySearch(w.RequiredNodes, n.Name); is {
			required.pool = append(required.pool, index)
		}
	}
	if len(required.pool) < required.low {
		return Shortage{What: Host, Name: required.missing(), Need: uint64(required.low), Have: uint64(len(required.pool))}, 0
	}
	if w.low > w.high {
		return Shortage{What: Bounds, Need: uint64(w.low), Have: uint64(w.high)}, 0
	}
	if required.low > 0 {
		if short, passed = required.onNodes(); short.What != Nothing {
			return short, passed
		}
	}
	if short, passed = pool.onNodes(); short.What != Nothing {
		return short, passed
	}
	for _, check := range []func() Shortage{pool.groupsLeft, pool.totals, pool.near} {
		if short = check(); short.What != Nothing {
			return short, passed
		}
		passed++
	}
	return Shortage{What: Nodes, Need: uint64(w.low), Have: uint64(len(pool.pool)), Excluding: len(w.ExcludedNodes) > 0}, passed
}

// sieve is the nodes that passed the checks so far, and how many of them have
// to pass.
type sieve struct {
	*want
	pool  []NodeIndex
	low   int
	among Among
}

// missing is the first required host that is not in the pool.
func (s *sieve) missing() string {
	for _, name := range s.RequiredNodes {
		if !slices.ContainsFunc(s.pool, func(i NodeIndex) bool { return s.nodes[i].Name == name }) {
			return name
		}
	}
	return ""
}

// onNodes checks what each node of the job must have.
func (s *sieve) onNodes() (short Shortage, passed int) {
	for i, check := range []func() (Shortage, bool){
		s.count, s.features, s.grouped, s.modelThere, s.open, s.gpusFree, s.cpusFree, s.tmpFree, s.memoryFree,
	} {
		if shortage, is := check(); is {
			return shortage, i
		}
		passed = i + 1
	}
	return Shortage{}, passed
}

// keep drops the nodes that do not pass, and says how many are left and
// whether those are too few.
func (s *sieve) keep(pass func(*Node) bool) (left uint32, short bool) {
	var kept []NodeIndex
	for _, index := range s.pool {
		if pass(&s.nodes[index]) {
			kept = append(kept, index)
		}
	}
	if len(kept) < len(s.pool) && s.among == AllNodes {
		s.among = SuitableNodes
	}
	s.pool = kept
	return uint32(len(kept)), len(kept) < s.low
}

// nodeShortage counts nodes.
func (s *sieve) nodeShortage(what What, name string, left uint32) Shortage {
	return Shortage{What: what, Name: name, Need: uint64(s.low), Have: uint64(left)}
}

func (s *sieve) count() (Shortage, bool) {
	return s.nodeShortage(Nodes, "", uint32(len(s.pool))), len(s.pool) < s.low
}

func (s *sieve) features() (Shortage, bool) {
	each := s.Constraint.Each
	if len(each) == 0 {
		return Shortage{}, false
	}
	left, short := s.keep(func(n *Node) bool { return each.Met(n.Features) })
	return s.nodeShortage(Feature, each.String(), left), short
}

// grouped checks that there are nodes for the groups of the constraint, free or
// not.
func (s *sieve) grouped() (Shortage, bool) {
	if s.among == NamedNodes {
		return Shortage{}, false
	}
	short := s.groupsShort()
	return short, short.What != Nothing
}

// groupsLeft checks that there are nodes for the groups among those that have
// everything else.
func (s *sieve) groupsLeft() Shortage {
	short := s.groupsShort()
	short.Among = SuitableNodes
	return short
}

func (s *sieve) groupsShort() Shortage {
	for _, group := range s.Constraint.Groups {
		have := uint64(0)
		for _, index := range s.pool {
			if group.Of.Met(s.nodes[index].Features) {
				have++
			}
		}
		if have < uint64(group.Count) {
			return Shortage{What: Feature, Name: group.Of.String(), Need: uint64(group.Count), Have: have}
		}
	}
	seating := newSeating(&s.Constraint)
	for _, index := range s.pool {
		seating.add(s.Constraint.groupsOf(s.nodes[index].Features))
	}
	if seating.empty == 0 {
		return Shortage{}
	}
	need := uint64(s.Constraint.Nodes())
	return Shortage{What: Feature, Name: s.Constraint.groupsText(), Need: need, Have: need - seating.empty}
}

// modelThere checks that devices of the named model exist at all, free or not.
func (s *sieve) modelThere() (Shortage, bool) {
	if !s.WantsGPUs() || s.Model == "" {
		return Shortage{}, false
	}
	among := s.among
	left, short := s.keep(func(n *Node) bool {
		return slices.ContainsFunc(n.Devices, func(d Device) bool { return d.Model == s.Model && d.Parent == WholeDevice })
	})
	s.among = among // what is said of the GPUs next names the model
	return s.nodeShortage(Model, s.Model, left), short
}

func (s *sieve) open() (Shortage, bool) {
	kept := slices.ContainsFunc(s.pool, func(index NodeIndex) bool {
		n := &s.nodes[index]
		return n.Available && !n.Exclusive && !s.amongOwn(n)
	})
	left, short := s.keep(s.want.open)
	shortage := s.nodeShortage(Nodes, "", left)
	shortage.Whole, shortage.Unshared = s.Exclusive, kept
	return shortage, short
}

// free is how many devices of the model are free.
func (s *sieve) free(n *Node) uint64 {
	return s.freeGPUs(n, s.model)
}

// gpusEach is how many devices each node must have.
func (w *want) gpusEach() uint64 { return max(w.gpus, product(w.slots, w.unit.gpus)) }

// gpusFree checks what each node must have. Without a named model it continues
// with the one that the most nodes have enough of.
func (s *sieve) gpusFree() (Shortage, bool) {
	if !s.WantsGPUs() {
		return Shortage{}, false
	}
	s.model = s.Model
	if s.model == "" {
		s.model = s.commonest()
	}
	need := s.gpusEach()
	shortage := Shortage{What: GPUs, Name: s.Model, Need: need}
	shortage.Have, shortage.HaveOn = s.richest(s.free)
	shortage, short := s.perNodeShortage(shortage, func(n *Node) bool { return s.free(n) >= need })
	if shortage.HaveNodes == 0 && s.spread > 0 {
		return Shortage{What: GPUs, Name: s.Model, Need: s.spread}, short
	}
	return shortage, short
}

// commonest is the model with enough free devices on the most nodes, or if no
// node has enough, with the most on one node.
func (s *sieve) commonest() string {
	best, bestNodes, bestMost := "", -1, uint64(0)
	for _, s.model = range s.models(s.pool) {
		enough := 0
		most := s.most(func(n *Node) uint64 {
			have := s.free(n)
			if have >= s.gpusEach() {
				enough++
			}
			return have
		})
		if cmp.Or(cmp.Compare(enough, bestNodes), cmp.Compare(most, bestMost)) > 0 {
			best, bestNodes, bestMost = s.model, enough, most
		}
	}
	return best
}

// cpusEach is how many CPUs each node must have.
func (w *want) cpusEach() uint64 {
	return max(product(w.slots, w.unit.cpus), product(w.gpusEach(), uint64(w.CPUsPerGPU)))
}

func (s *sieve) cpusFree() (Shortage, bool) {
	free := func(n *Node) uint64 { return uint64(n.FreeCPUs.Count()) }
	shortage := Shortage{What: CPUs, Need: s.cpusEach()}
	shortage.Have, shortage.HaveOn = s.richest(free)
	return s.perNodeShortage(shortage, func(n *Node) bool { return free(n) >= s.cpusEach() })
}

func (s *sieve) memoryFree() (Shortage, bool) {
	shortage := Shortage{What: Memory}
	shortage.Have, shortage.HaveOn = s.richest(s.freeMemory)
	switch {
	case s.memory == memoryPerNode:
		shortage.Need = s.MemoryPerNode
	case s.memory == allMemory:
		shortage.Need, shortage.Whole = s.most(s.wholeMemory), true
	case s.memory == memoryPerGPU && s.Exclusive:
		shortage.Need = product(s.MemoryPerGPU, s.most(s.free))
	case s.memory == memoryPerGPU:
		shortage.Need = product(s.MemoryPerGPU, s.gpusEach())
	case s.Exclusive:
		shortage.Need = product(s.MemoryPerCPU, s.most(func(n *Node) uint64 { return uint64(n.FreeCPUs.Count()) }))
	default:
		shortage.Need = product(s.MemoryPerCPU, s.cpusEach())
	}
	return s.perNodeShortage(shortage, func(n *Node) bool { return s.room(n) > 0 })
}

// room is the units that a node takes.
func (s *sieve) room(n *Node) uint64 {
	units, _ := s.capacity(n, s.free(n))
	return units
}

// perNodeShortage completes a shortage with the nodes that pass.
func (s *sieve) perNodeShortage(shortage Shortage, pass func(*Node) bool) (Shortage, bool) {
	var short bool
	shortage.PerNode, shortage.NeedNodes, shortage.Among = true, uint32(s.low), s.among
	shortage.HaveNodes, short = s.keep(pass)
	return shortage, short
}

// most is the largest amount on one node of the pool.
func (s *sieve) most(amount func(*Node) uint64) uint64 {
	most, _ := s.richest(amount)
	return most
}

// richest is the largest amount on one node of the pool, and the first node
// that has it; "" if none has any.
func (s *sieve) richest(amount func(*Node) uint64) (most uint64, on string) {
	for _, index := range s.pool {
		if here := amount(&s.nodes[index]); here > most {
			most, on = here, s.nodes[index].Name
		}
	}
	return most, on
}

// product multiplies, and stops at the highest number: a figure for a request
// that no machine could fulfil.
func product(a, b uint64) uint64 {
	over, result := bits.Mul64(a, b)
	if over != 0 {
		return math.MaxUint64
	}
	return result
}
