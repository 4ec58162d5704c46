package place

import (
	"cmp"
	"slices"
)

// pool is offers of which some are to be chosen.
type pool struct {
	*want
	offers   []offer
	rankings [][]offer // made when they are needed
	least    int       // fewer nodes than this do not suffice, once there are rankings
}

func (w *want) pool(offers []offer) *pool { return &pool{want: w, offers: offers} }

// fewest is a number of nodes below which nothing fits.
func (p *pool) fewest() int {
	p.rank()
	return p.least
}

// exact picks count nodes that suffice, the best first; nil if there are none.
func (p *pool) exact(count int) *choice {
	if count == 1 {
		return p.one()
	}
	p.rank()
	if count < p.least || count > len(p.offers) {
		return nil
	}
	if even := p.spread / uint64(count); even > 0 && p.spread%uint64(count) == 0 {
		for _, ranking := range p.rankings {
			if chosen := p.first(ranking, count, even); p.suffices(chosen) {
				return p.choice(chosen, even)
			}
		}
	}
	for _, ranking := range p.rankings {
		if chosen := p.first(ranking, count, 0); p.suffices(chosen) {
			return p.choice(chosen, 0)
		}
	}
	return nil
}

// rank puts the offers into the orders in which they are tried.
func (p *pool) rank() {
	if p.rankings != nil {
		return
	}
	p.rankings = [][]offer{p.ranked(func(offer) uint64 { return 0 })}
	most := func(amount func(offer) uint64, sum uint64) {
		ranking := p.ranked(amount)
		p.least = max(p.least, fewest(ranking, sum, amount))
		p.rankings = append(p.rankings, ranking)
	}
	if p.units > 0 {
		most(func(o offer) uint64 { return uint64(o.units) }, p.units)
	}
	if p.spread > 0 {
		most(func(o offer) uint64 { return uint64(o.gpus) }, p.spread)
	}
	if p.units > 0 && p.spread > 0 {
		// Tasks and devices weighed by what the job needs of them.
		p.rankings = append(p.rankings, p.ranked(func(o offer) uint64 {
			return uint64(o.units)*p.spread + min(uint64(o.gpus), p.spread)*p.units
		}))
	}
}

// ranked sorts offers: required ones first, since those are taken in any case,
// then those with the most of something, then those that fit best.
func (p *pool) ranked(amount func(offer) uint64) []offer {
	sorted := slices.Clone(p.offers)
	slices.SortFunc(sorted, func(a, b offer) int {
		if first := cmp.Or(requiredFirst(a, b), cmp.Compare(amount(b), amount(a))); first != 0 {
			return first
		}
		return cmp.Or(p.fit(&a, &b, p.gpus), int(a.node)-int(b.node))
	})
	return sorted
}

func requiredFirst(a, b offer) int {
	switch {
	case a.required == b.required:
		return 0
	case a.required:
		return -1
	}
	return 1
}

// fit compares what would be left of two nodes of which take devices are taken;
// 0 if that is alike.
func (w *want) fit(a, b *offer, take uint64) int {
	if !w.WantsGPUs() {
		return cmp.Or(cmp.Compare(a.left, b.left), compareBool(a.whole, b.whole), int(a.leafWhole-b.leafWhole), cmp.Compare(a.cpus, b.cpus))
	}
	if breaks := compareBool(a.breaks(take), b.breaks(take)); breaks != 0 {
		return breaks
	}
	return cmp.Or(cmp.Compare(a.left, b.left), int(a.leafWhole-b.leafWhole))
}

// breaks reports whether the node is whole, and will not be and not be full either.
func (o *offer) breaks(take uint64) bool { return o.whole && take < uint64(o.left) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// one picks the one node that can hold the whole job.
func (p *pool) one() *choice {
	named, grouped := len(p.RequiredNodes), p.Constraint.Nodes()
	if named > 1 || grouped > 1 {
		return nil
	}
	take := p.whole()
	best := -1
	for i := range p.offers {
		o := &p.offers[i]
		if named > 0 && !o.required || grouped > 0 && o.groups == 0 || !p.holds(o) {
			continue
		}
		if best < 0 || p.fit(o, &p.offers[best], take) < 0 {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	if named == 0 && grouped == 0 && p.WantsGPUs() {
		best = p.bestLinkedNode(best, take)
	}
	return p.choice(p.offers[best:best+1], p.spread)
}

// whole is how many devices the whole job takes on one node.
func (w *want) whole() uint64 { return max(w.gpus, w.spread, w.units*w.unit.gpus) }

// holds reports whether a node can hold the whole job.
func (w *want) holds(o *offer) bool { return uint64(o.units) >= w.units && uint64(o.gpus) >= w.spread }

// maxAlike bounds how many nodes that fit alike are compared by their links.
const maxAlike = 16

// bestLinkedNode is, among nodes that fit as well as the one at best, the one
// with the best linked devices for the job. Nodes with all devices free are
// taken to be alike.
func (p *pool) bestLinkedNode(best int, take uint64) int {
	like := p.offers[best]
	if like.whole {
		return best
	}
	var bestLinks links
	seen := 0
	for i := best; i < len(p.offers) && seen < maxAlike; i++ {
		o := &p.offers[i]
		if !p.holds(o) || p.fit(o, &like, take) != 0 {
			continue
		}
		found := linksOf(&p.nodes[o.node], p.model, int(take), p.guestOn(&p.nodes[o.node]))
		if seen++; seen == 1 || found.compare(bestLinks) < 0 {
			best, bestLinks = i, found
		}
		if found.perfect(int(take)) {
			break
		}
	}
	return best
}

// fewest is how many of the ranked nodes it takes at least to reach sum.
func fewest(ranked []offer, sum uint64, amount func(offer) uint64) int {
	have := uint64(0)
	for i := range ranked {
		if have >= sum {
			return i
		}
		have += amount(ranked[i])
	}
	if have >= sum {
		return len(ranked)
	}
	return len(ranked) + 1
}

// first is the first count nodes that have at least gpus usable devices and
// that fill the groups of the constraint: as many as possible are taken in
// their order, and a node that fills no group only while the groups leave room.
// nil if there are too few, or a required node is not among them.
func (p *pool) first(ranked []offer, count int, gpus uint64) []offer {
	groups := newSeating(&p.Constraint)
	chosen, required := make([]offer, 0, count), 0
	for _, o := range ranked {
		if len(chosen) == count {
			break
		}
		if uint64(o.gpus) < gpus {
			continue
		}
		if !groups.add(o.groups) && !o.required && uint64(count-len(chosen)) <= groups.empty {
			continue
		}
		if o.required {
			required++
		}
		chosen = append(chosen, o)
	}
	if len(chosen) < count || groups.empty > 0 || required < len(p.RequiredNodes) {
		return nil
	}
	return chosen
}

// suffices reports whether the nodes together hold the units and the devices of
// the whole job.
func (w *want) suffices(chosen []offer) bool {
	units, gpus := uint64(0), uint64(0)
	for i := range chosen {
		units += uint64(chosen[i].units)
		gpus += uint64(chosen[i].gpus)
	}
	return len(chosen) > 0 && units >= w.units && gpus >= w.spread
}

// choice divides the job over the chosen nodes. Devices of the whole job go
// evenly to each, or if even is 0 and they are counted per job, one to each and
// the rest to the first nodes that have them.
func (p *pool) choice(chosen []offer, even uint64) *choice {
	c := &choice{shares: make([]share, len(chosen))}
	for i, o := range chosen {
		c.shares[i] = share{offer: o, take: max(p.gpus, even)}
	}
	slices.SortFunc(c.shares, func(a, b share) int { return int(a.node) - int(b.node) })
	p.layOut(c.shares)
	if p.spread > 0 && even == 0 {
		rest := p.spread - uint64(len(c.shares))
		for i := range c.shares {
			more := min(rest, uint64(c.shares[i].gpus)-1)
			c.shares[i].take += more
			rest -= more
		}
	}
	for i := range c.shares {
		s := &c.shares[i]
		s.take += s.lay * p.unit.gpus
		c.left += uint64(s.left) - min(uint64(s.left), s.take)
		if p.WantsGPUs() && s.breaks(s.take) {
			c.breaks++
		}
	}
	if p.wired {
		p.lookAround(c)
	}
	return c
}

// lookAround counts the leaf switches of a choice, and what it leaves over.
func (p *pool) lookAround(c *choice) {
	leaves := make([]int32, len(c.shares))
	for i := range c.shares {
		leaves[i] = c.shares[i].leaf
	}
	slices.Sort(leaves)
	c.leaves = len(slices.Compact(leaves))
	for i := range p.offers {
		c.room += uint64(p.offers[i].left)
	}
	for i := range c.shares {
		c.room -= min(uint64(c.shares[i].left), c.shares[i].take)
	}
	c.rest = len(p.offers) - len(c.shares)
}

// free is how many more units the node takes.
func (s *share) free() uint64 { return uint64(s.units) - min(uint64(s.units), s.lay) }

// layOut gives the units to the nodes. Slurm's block distribution: one on each
// node, then as many as fit on the first node, on the second, and so on; or
// evenly, always one more on each node that has room.
func (w *want) layOut(shares []share) {
	if w.units == 0 {
		for i := range shares {
			shares[i].lay = uint64(shares[i].units)
		}
		return
	}
	rest := w.units
	for i := range shares {
		if rest > 0 {
			shares[i].lay = 1
			rest--
		}
	}
	for w.EvenTasks && rest > 0 {
		before := rest
		each := max(rest/uint64(len(shares)), 1)
		for i := range shares {
			more := min(each, rest, shares[i].free())
			shares[i].lay += more
			rest -= more
		}
		if rest == before {
			break
		}
	}
	for i := range shares {
		more := min(rest, shares[i].free())
		shares[i].lay += more
		rest -= more
	}
}
