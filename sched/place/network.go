package place

import (
	"cmp"
	"slices"
)

// Switch is one switch of the network (topology.conf(5)): the nodes below it,
// also those below the switches under it.
type Switch struct {
	Name  string
	Level uint32      // 0 = nodes are attached to it
	Nodes []NodeIndex // ascending

	Index int // position in the network; set by Wire
}

// Wire answers the nodes with their places in the network, and changes nothing.
// Switches stand before those above them. Without any, it is the nodes as they
// are: then nothing is known of the network, and every node is as near to every
// other.
func Wire(nodes []Node, switches []Switch) []Node {
	if len(switches) == 0 {
		return nodes
	}
	wired, network := slices.Clone(nodes), slices.Clone(switches)
	for i := range network {
		network[i].Index = i
		for _, node := range network[i].Nodes {
			wired[node].Above = append(wired[node].Above, &network[i])
		}
	}
	for i := range wired {
		wired[i].Wired = true
	}
	return wired
}

// leaf is the switch that the node is attached to; nil if it is to none.
func (n *Node) leaf() *Switch {
	if len(n.Above) == 0 || n.Above[0].Level > 0 {
		return nil
	}
	return n.Above[0]
}

// SameNetwork says whether two nodes are below switches of the same names.
func SameNetwork(a, b Node) bool {
	return a.Wired == b.Wired && slices.EqualFunc(a.Above, b.Above, func(a, b *Switch) bool {
		return a.Name == b.Name && a.Level == b.Level
	})
}

// scope is the offers below one switch.
type scope struct {
	pool  *pool
	level uint32
}

// scopes are the switches with offers below them, the lowest first.
func (w *want) scopes(offers []offer) []scope {
	type below struct {
		of     *Switch
		offers []offer
	}
	var switches []below
	position := make(map[int]int) // switch -> position in switches
	for _, o := range offers {
		for _, above := range w.nodes[o.node].Above {
			at, known := position[above.Index]
			if !known {
				at = len(switches)
				position[above.Index] = at
				switches = append(switches, below{of: above})
			}
			switches[at].offers = append(switches[at].offers, o)
		}
	}
	slices.SortFunc(switches, func(a, b below) int {
		return cmp.Or(cmp.Compare(a.of.Level, b.of.Level), a.of.Index-b.of.Index)
	})
	scopes := make([]scope, len(switches))
	for i, s := range switches {
		scopes[i] = scope{pool: w.pool(s.offers), level: s.of.Level}
	}
	return scopes
}

// nearest picks count nodes below the lowest switch that has them: of several
// the way with the fewest leaf switches, and then the best one (compare).
func (w *want) nearest(scopes []scope, count int) *choice {
	var best *choice
	for _, s := range scopes {
		if best != nil && s.level > best.level {
			break
		}
		if len(s.pool.offers) < count {
			continue
		}
		var found *choice
		if s.level == 0 {
			found = s.pool.exact(count)
		} else if s.pool.exact(count) != nil {
			found = w.fewestLeaves(s.pool, count)
		}
		if found == nil || w.Switches > 0 && found.leaves > int(w.Switches) {
			continue
		}
		found.level = s.level
		if best == nil || found.compare(best) < 0 {
			best = found
		}
	}
	return best
}

// maxLeafSets bounds how many sets of leaf switches are tried for a request
// that limits their number.
const maxLeafSets = 2048

// fewestLeaves picks count nodes of the pool on few leaf switches: always the
// switch with the most room, until what is left fits on one, and then the one
// with the least room that suffices. "Most room" is tried in nodes, tasks and
// devices. If that is more than the request allows, all sets of as many
// switches are tried, up to maxLeafSets.
func (w *want) fewestLeaves(p *pool, count int) *choice {
	leaves := leavesOf(p.offers)
	var best *choice
	for _, room := range []func(offer) uint64{
		func(offer) uint64 { return 1 },
		func(o offer) uint64 { return o.units },
		func(o offer) uint64 { return o.gpus },
	} {
		slices.SortStableFunc(leaves, func(a, b []offer) int { return byRoom(a, b, room) })
		if found := w.largestFirst(leaves, count); found != nil && (best == nil || found.compare(best) < 0) {
			best = found
		}
	}
	if w.Switches == 0 || best != nil && best.leaves <= int(w.Switches) {
		return best
	}
	tries := 0
	if found := w.anyLeaves(leaves, nil, count, int(w.Switches), &tries); found != nil {
		return found
	}
	return best
}

// leavesOf sorts offers by the leaf switch, the lowest node first. A node that
// is attached to no leaf is one for itself.
func leavesOf(offers []offer) [][]offer {
	var leaves [][]offer
	position := make(map[int32]int)
	for _, o := range offers {
		at, known := position[o.leaf]
		if !known || o.leaf < 0 {
			at = len(leaves)
			position[o.leaf] = at
			leaves = append(leaves, nil)
		}
		leaves[at] = append(leaves[at], o)
	}
	return leaves
}

// byRoom puts the leaves with required nodes first, then those with most room.
func byRoom(a, b []offer, room func(offer) uint64) int {
	sum := func(offers []offer) (required int, all uint64) {
		for _, o := range offers {
			all += room(o)
			if o.required {
				required = 1
			}
		}
		return required, all
	}
	requiredA, sumA := sum(a)
	requiredB, sumB := sum(b)
	return cmp.Or(requiredB-requiredA, cmp.Compare(sumB, sumA), int(a[0].node)-int(b[0].node))
}

// largestFirst takes leaves in their order until they suffice, and puts the
// smallest that will do in the place of the last.
func (w *want) largestFirst(leaves [][]offer, count int) *choice {
	var taken []offer
	for i := range leaves {
		before := taken
		taken = slices.Concat(before, leaves[i])
		found := w.pool(taken).exact(count)
		if found == nil {
			continue
		}
		for last := len(leaves) - 1; last > i; last-- {
			if smaller := w.pool(slices.Concat(before, leaves[last])).exact(count); smaller != nil {
				return smaller
			}
		}
		return found
	}
	return nil
}

// anyLeaves tries every set of at most most leaves, with those taken.
func (w *want) anyLeaves(leaves [][]offer, taken []offer, count, most int, tries *int) *choice {
	for i := range leaves {
		if *tries++; *tries > maxLeafSets {
			return nil
		}
		with := slices.Concat(taken, leaves[i])
		if found := w.pool(with).exact(count); found != nil {
			return found
		}
		if most > 1 {
			if found := w.anyLeaves(leaves[i+1:], with, count, most-1, tries); found != nil {
				return found
			}
		}
	}
	return nil
}

// inARow picks count nodes whose numbers follow each other, and that a switch
// connects if the network is known.
func (w *want) inARow(offers []offer, count int) *choice {
	var best *choice
	for i := 0; i+count <= len(offers); i++ {
		row := offers[i : i+count]
		if int(row[count-1].node)-int(row[0].node) != count-1 {
			continue
		}
		found := w.pool(row).exact(count)
		if found == nil {
			continue
		}
		if w.wired && count > 1 {
			common := w.commonSwitch(row)
			if common == nil || w.Switches > 0 && found.leaves > int(w.Switches) {
				continue
			}
			found.level = common.Level
		}
		if best == nil || found.compare(best) < 0 {
			best = found
		}
	}
	return best
}

// commonSwitch is the lowest switch above all of the offers; nil if there is
// none.
func (w *want) commonSwitch(offers []offer) *Switch {
	for _, above := range w.nodes[offers[0].node].Above {
		if !slices.ContainsFunc(offers, func(o offer) bool { return !slices.Contains(w.nodes[o.node].Above, above) }) {
			return above
		}
	}
	return nil
}
