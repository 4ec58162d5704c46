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
// has 8 CPUs free" is said of those that have the GPUs.
func (w *want) shortage(nodes []Node, candidates []NodeIndex) Shortage {
	pool := sieve{want: w, nodes: nodes, low: w.low}
	required := sieve{want: w, nodes: nodes, low: len(w.RequiredNodes), among: NamedNodes}
	for _, index := range candidates {
		n := &nodes[index]
		if _, is := slices.BinarySearch(w.ExcludedNodes, n.Name); is {
			continue
		}
		pool.pool = append(pool.pool, index)
		if _, is := slices.BinarySearch(w.RequiredNodes, n.Name); is {
			required.pool = append(required.pool, index)
		}
	}
	if len(required.pool) < required.low {
		return Shortage{What: Host, Name: required.missing(), Need: uint64(required.low), Have: uint64(len(required.pool))}
	}
	if w.low > w.high {
		return Shortage{What: Bounds, Need: uint64(w.low), Have: uint64(w.high)}
	}
	if required.low > 0 {
		if s, short := required.onNodes(); short {
			return s
		}
	}
	if s, short := pool.onNodes(); short {
		return s
	}
	if s, short := pool.totals(); short {
		return s
	}
	return Shortage{What: Nodes, Need: uint64(w.low), Have: uint64(len(pool.pool)), Excluding: len(w.ExcludedNodes) > 0}
}

// sieve is the nodes that passed the checks so far, and how many of them have
// to pass.
type sieve struct {
	*want
	nodes []Node
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
func (s *sieve) onNodes() (Shortage, bool) {
	for _, check := range []func() (Shortage, bool){s.count, s.features, s.model, s.open, s.gpus, s.cpus, s.memory} {
		if shortage, short := check(); short {
			return shortage, true
		}
	}
	return Shortage{}, false
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
	for _, feature := range s.Features {
		left, short := s.keep(func(n *Node) bool { return hasAll(n.Features, []string{feature}) })
		if short {
			return s.nodeShortage(Feature, feature, left), true
		}
	}
	return Shortage{}, false
}

// model checks that devices of the named model exist at all, free or not.
func (s *sieve) model() (Shortage, bool) {
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
	left, short := s.keep(s.want.open)
	shortage := s.nodeShortage(Nodes, "", left)
	shortage.Whole = s.Exclusive
	return shortage, short
}

// gpus checks what each node must have. Without a named model it goes on with
// the one that the most nodes have enough of.
func (s *sieve) gpus() (Shortage, bool) {
	if !s.WantsGPUs() {
		return Shortage{}, false
	}
	model := s.Model
	if model == "" {
		model = s.commonest()
	}
	free := func(n *Node) uint64 { have, _ := freeGPUs(n, model); return have }
	shortage := Shortage{What: GPUs, Name: s.Model, Need: s.want.gpus}
	shortage.Have, shortage.HaveOn = s.richest(free)
	shortage, short := s.perNode(shortage, func(n *Node) bool { return free(n) >= s.want.gpus })
	if shortage.HaveNodes == 0 && s.spread > 0 {
		return Shortage{What: GPUs, Name: s.Model, Need: s.spread}, short
	}
	return shortage, short
}

// commonest is the model with enough free devices on the most nodes, or if no
// node has enough, with the most on one node.
func (s *sieve) commonest() string {
	best, bestNodes, bestMost := "", -1, uint64(0)
	for _, model := range s.models(s.nodes, s.pool) {
		enough := 0
		most := s.most(func(n *Node) uint64 {
			have, _ := freeGPUs(n, model)
			if have >= s.want.gpus {
				enough++
			}
			return have
		})
		if cmp.Or(cmp.Compare(enough, bestNodes), cmp.Compare(most, bestMost)) > 0 {
			best, bestNodes, bestMost = model, enough, most
		}
	}
	return best
}

func (s *sieve) cpus() (Shortage, bool) {
	shortage := Shortage{What: CPUs, Need: product(s.slots, s.want.cpus)}
	shortage.Have, shortage.HaveOn = s.richest(func(n *Node) uint64 { return uint64(n.FreeCPUs.Count()) })
	return s.perNode(shortage, func(n *Node) bool { return s.cpuRoom(n) >= s.slots })
}

func (s *sieve) memory() (Shortage, bool) {
	shortage := Shortage{What: Memory}
	shortage.Have, shortage.HaveOn = s.richest(func(n *Node) uint64 { return n.FreeMemory })
	switch {
	case s.MemoryPerNode > 0:
		shortage.Need = s.MemoryPerNode
	case s.MemoryPerCPU == 0:
		shortage.Need, shortage.Whole = s.most(func(n *Node) uint64 { return n.MemoryBytes }), true
	case s.Exclusive:
		shortage.Need = product(s.MemoryPerCPU, s.most(func(n *Node) uint64 { return uint64(n.FreeCPUs.Count()) }))
	default:
		shortage.Need = product(s.MemoryPerCPU, product(s.slots, s.want.cpus))
	}
	return s.perNode(shortage, func(n *Node) bool { return s.memoryRoom(n) >= s.slots })
}

// perNode completes a shortage with the nodes that pass.
func (s *sieve) perNode(shortage Shortage, pass func(*Node) bool) (Shortage, bool) {
	var short bool
	shortage.PerNode, shortage.NeedNodes, shortage.Among = true, uint32(s.low), s.among
	shortage.HaveNodes, short = s.keep(pass)
	return shortage, short
}

// totals checks what the whole job needs against the best nodes it may have.
func (s *sieve) totals() (Shortage, bool) {
	if s.Tasks > 0 {
		if room := s.best(s.room); room < uint64(s.Tasks) {
			return Shortage{What: CPUs, Need: product(uint64(s.Tasks), s.want.cpus), Have: room * s.want.cpus}, true
		}
	}
	if s.spread > 0 {
		most := uint64(0)
		for _, model := range s.models(s.nodes, s.pool) {
			most = max(most, s.best(func(n *Node) uint64 { have, _ := freeGPUs(n, model); return have }))
		}
		if most < s.spread {
			return Shortage{What: GPUs, Name: s.Model, Need: s.spread, Have: most}, true
		}
	}
	return Shortage{}, false
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

// product multiplies, and stops at the highest number: a figure for a request
// that no machine could fulfil.
func product(a, b uint64) uint64 {
	over, result := bits.Mul64(a, b)
	if over != 0 {
		return math.MaxUint64
	}
	return result
}
