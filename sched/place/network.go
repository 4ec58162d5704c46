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

// Wire returns the nodes with their places in the network, and changes nothing.
// Switches come before those above them. Without any, it is the nodes as they
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

// SameNetwork reports whether two nodes are below switches of the same names.
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

// maxSets bounds how many sets of leaf switches, and how many rows of nodes, are
// tried for one number of nodes.
const maxSets = 2048

// leafOffers are the offers on one leaf switch, and what they hold together.
type leafOffers struct {
	offers   []offer
	required bool
	room     amounts
}

// amounts is what nodes hold together.
type amounts struct{ nodes, units, gpus uint64 }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.nodes + b.nodes, a.units + b.units, a.gpus + b.gpus}
}

// may reports whether nodes that hold so much may suffice; only exact knows.
func (w *want) may(a amounts, count int) bool {
	return a.nodes >= uint64(count) && a.units >= w.units && a.gpus >= w.spread
}

// fewestLeaves picks count nodes of the pool on few leaf switches: always the
// switch with the most room, until what is left fits on one, and then the one
// with the least room that suffices. "Most room" is tried in nodes, tasks and
// devices. If that is more than the request allows, all sets of as many
// switches are tried, up to maxSets.
func (w *want) fewestLeaves(p *pool, count int) *choice {
	leaves := leavesOf(p.offers)
	rooms := []func(amounts) uint64{func(a amounts) uint64 { return a.nodes }}
	if w.units > 0 {
		rooms = append(rooms, func(a amounts) uint64 { return a.units })
	}
	if w.spread > 0 {
		rooms = append(rooms, func(a amounts) uint64 { return a.gpus })
	}
	var best *choice
	for _, room := range rooms {
		slices.SortFunc(leaves, func(a, b leafOffers) int {
			return cmp.Or(compareBool(b.required, a.required), cmp.Compare(room(b.room), room(a.room)), int(a.offers[0].node)-int(b.offers[0].node))
		})
		if found := w.largestFirst(leaves, count); found != nil && (best == nil || found.compare(best) < 0) {
			best = found
		}
	}
	if w.Switches == 0 || best != nil && best.leaves <= int(w.Switches) {
		return best
	}
	tries := 0
	if found := w.anyLeaves(leaves, leafOffers{}, count, int(w.Switches), &tries); found != nil {
		return found
	}
	return best
}

// leavesOf sorts offers by the leaf switch, the lowest node first. A node that
// is attached to no leaf is one for itself.
func leavesOf(offers []offer) []leafOffers {
	var leaves []leafOffers
	position := make(map[int32]int)
	for _, o := range offers {
		at, known := position[o.leaf]
		if !known || o.leaf < 0 {
			at = len(leaves)
			position[o.leaf] = at
			leaves = append(leaves, leafOffers{})
		}
		leaf := &leaves[at]
		leaf.offers = append(leaf.offers, o)
		leaf.required = leaf.required || o.required
		leaf.room = leaf.room.plus(amounts{1, uint64(o.units), uint64(o.gpus)})
	}
	return leaves
}

// largestFirst takes leaves in their order until they suffice, and puts the
// smallest that will do in the place of the last.
func (w *want) largestFirst(leaves []leafOffers, count int) *choice {
	var taken []offer
	var room amounts
	for i := range leaves {
		before, had := len(taken), room
		taken, room = append(taken, leaves[i].offers...), room.plus(leaves[i].room)
		if !w.may(room, count) {
			continue
		}
		found := w.pool(taken).exact(count)
		if found == nil {
			continue
		}
		for last := len(leaves) - 1; last > i; last-- {
			if !w.may(had.plus(leaves[last].room), count) {
				continue
			}
			if smaller := w.pool(slices.Concat(taken[:before], leaves[last].offers)).exact(count); smaller != nil {
				return smaller
			}
		}
		return found
	}
	return nil
}

// anyLeaves tries every set of at most most leaves, with those taken.
func (w *want) anyLeaves(leaves []leafOffers, taken leafOffers, count, most int, tries *int) *choice {
	for i := range leaves {
		if *tries++; *tries > maxSets {
			return nil
		}
		with := leafOffers{offers: slices.Concat(taken.offers, leaves[i].offers), room: taken.room.plus(leaves[i].room)}
		if w.may(with.room, count) {
			if found := w.pool(with.offers).exact(count); found != nil {
				return found
			}
		}
		if most > 1 {
			if found := w.anyLeaves(leaves[i+1:], with, count, most-1, tries); found != nil {
				return found
			}
		}
	}
	return nil
}

// longestRow is the most offers whose nodes follow each other.
func longestRow(offers []offer) int {
	longest, row := 0, 0
	for i := range offers {
		if row++; i > 0 && offers[i-1].node != offers[i].node-1 {
			row = 1
		}
		longest = max(longest, row)
	}
	return longest
}

// inARow picks count nodes whose numbers follow each other, and that a switch
// connects if the network is known.
func (w *want) inARow(offers []offer, count int) *choice {
	var best *choice
	var room amounts
	tries := 0
	for i := range offers {
		room = room.plus(amounts{1, uint64(offers[i].units), uint64(offers[i].gpus)})
		if i >= count {
			out := &offers[i-count]
			room = amounts{room.nodes - 1, room.units - uint64(out.units), room.gpus - uint64(out.gpus)}
		}
		if i+1 < count || !w.may(room, count) {
			continue
		}
		row := offers[i+1-count : i+1]
		if int(row[count-1].node)-int(row[0].node) != count-1 {
			continue
		}
		if tries++; tries > maxSets {
			break
		}
		if found := w.pool(row).exact(count); found != nil && w.connects(row, found) && (best == nil || found.compare(best) < 0) {
			best = found
		}
	}
	return best
}

// connects reports whether switches that the request may use connect a row, and
// notes which.
func (w *want) connects(row []offer, found *choice) bool {
	if !w.wired || len(row) == 1 {
		return true
	}
	common := w.commonSwitch(row)
	if common == nil || w.Switches > 0 && found.leaves > int(w.Switches) {
		return false
	}
	found.level = common.Level
	return true
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
