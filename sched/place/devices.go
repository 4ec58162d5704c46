package place

import (
	"cmp"
	"math/bits"
	"slices"
)

// pickDevices takes count free devices of a model: those that are kept for the job
// if they suffice, of these those with the most links to each other, then those that
// break the fewest links to devices that stay free, then those for which no parked job
// waits, then the lowest. near is the CPUs near them, empty if that is all.
func pickDevices(n *Node, model string, count int, guest bool) (grants []Grant, near CPUSet) {
	if count == 0 {
		return nil, CPUSet{}
	}
	free, linked := freeFor(n, model, count, guest)
	chosen := free[:count]
	if linked && count < len(free) && count <= maxLinked {
		chosen = bestLinked(n, free, count)
	}
	slices.Sort(chosen)
	everywhere := false
	for _, index := range chosen {
		d := &n.Devices[index]
		grants = append(grants, Grant{Device: index, Shares: d.Shares})
		near = near.Union(d.NearCPUs)
		everywhere = everywhere || d.NearCPUs.Empty()
	}
	if everywhere {
		near = CPUSet{}
	}
	return grants, near
}

// freeFor lists the devices of a model of which a job gets count, and reports whether
// any has links: what is kept for its owner if that is enough, so that guests may have
// the rest, and otherwise all that is free for the job.
func freeFor(n *Node, model string, count int, guest bool) (free []DeviceIndex, linked bool) {
	kept, keptLinked := freeOf(n, model, func(d *Device) bool { return d.Kept && d.free(guest) })
	if len(kept) > 0 && len(kept) >= count {
		return kept, keptLinked
	}
	return freeOf(n, model, func(d *Device) bool { return d.free(guest) })
}

// freeOf lists the devices of a model that are free, those for which a parked job waits
// behind the others, and reports whether any has links.
func freeOf(n *Node, model string, free func(*Device) bool) (all []DeviceIndex, linked bool) {
	for i := range n.Devices {
		if d := &n.Devices[i]; d.Model == model && free(d) {
			all = append(all, DeviceIndex(i))
			linked = linked || len(d.Links) > 0
		}
	}
	slices.SortStableFunc(all, func(a, b DeviceIndex) int { return n.Devices[a].after() - n.Devices[b].after() })
	return all, linked
}

// after is 1 for a device that is given behind the others.
func (d *Device) after() int {
	if d.Awaited {
		return 1
	}
	return 0
}

// maxLinked bounds how many free devices of a node are looked at for their
// links: the lowest ones.
const maxLinked = 64

// graph is the links among some free devices of a node: for each, a bit for
// each of those that it has a fast link to, by position.
type graph struct {
	devices []DeviceIndex
	linked  []uint64
}

func graphOf(n *Node, free []DeviceIndex) graph {
	g := graph{devices: free[:min(len(free), maxLinked)]}
	g.linked = make([]uint64, len(g.devices))
	for i, device := range g.devices {
		for k, other := range g.devices {
			if _, is := slices.BinarySearch(n.Devices[device].Links, other); is {
				g.linked[i] |= 1 << k
			}
		}
	}
	return g
}

// links says how well a group of devices is linked: how many links it has
// inside, and how many it cuts to devices that stay free.
type links struct{ inside, cut int }

// compare says which group is better: more links inside, then fewer cut.
func (l links) compare(other links) int {
	return cmp.Or(other.inside-l.inside, l.cut-other.cut)
}

// perfect reports whether no group of count devices can be better.
func (l links) perfect(count int) bool { return l.inside == count*(count-1)/2 && l.cut == 0 }

// linksOf says how well count devices of a node can be linked.
func linksOf(n *Node, model string, count int, guest bool) (best links) {
	if free, linked := freeFor(n, model, count, guest); linked && count <= maxLinked {
		_, best = graphOf(n, free).best(count)
	}
	return best
}

// best grows a group from each device in turn and returns the best group, a
// bit for each device.
func (g graph) best(count int) (best uint64, bestLinks links) {
	for seed := range g.devices {
		group, inside := g.grow(seed, count)
		found := links{inside: inside, cut: -2 * inside} // links inside are counted from both ends
		for members := group; members != 0; members &= members - 1 {
			found.cut += bits.OnesCount64(g.linked[bits.TrailingZeros64(members)])
		}
		if best == 0 || found.compare(bestLinks) < 0 {
			best, bestLinks = group, found
		}
	}
	return best, bestLinks
}

// grow adds to the seed, always the device with the most links into the group;
// of several the one whose own neighbours come closest to what is still wanted,
// so that a pair is completed by a pair. inside is the links within.
func (g graph) grow(seed, count int) (group uint64, inside int) {
	group = 1 << seed
	for have := 1; have < count; have++ {
		next, most, misfit := -1, -1, 0
		for candidate, linked := range g.linked {
			if group>>candidate&1 == 1 {
				continue
			}
			inwards := bits.OnesCount64(linked & group)
			m := bits.OnesCount64(linked&^group) - (count - have - 1)
			if inwards > most || inwards == most && max(m, -m) < misfit {
				next, most, misfit = candidate, inwards, max(m, -m)
			}
		}
		group |= 1 << next
		inside += most
	}
	return group, inside
}

// bestLinked is the best group of count devices, ascending.
func bestLinked(n *Node, free []DeviceIndex, count int) []DeviceIndex {
	g := graphOf(n, free)
	group, _ := g.best(count)
	chosen := make([]DeviceIndex, 0, count)
	for ; group != 0; group &= group - 1 {
		chosen = append(chosen, g.devices[bits.TrailingZeros64(group)])
	}
	return chosen
}
