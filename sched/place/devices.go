package place

import (
	"cmp"
	"slices"
)

// pickDevices takes count free devices of a model: those with the most links
// to each other, then those that break the fewest links to devices that stay
// free, then the lowest. near is the CPUs near them, empty if that is all.
func pickDevices(n *Node, model string, count int) (grants []Grant, near CPUSet) {
	if count == 0 {
		return nil, CPUSet{}
	}
	free, linked := freeOf(n, model)
	chosen := free[:count]
	if linked && count < len(free) {
		chosen, _ = bestLinked(n, free, count)
	}
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

// freeOf lists the free devices of a model, and says whether any has links.
func freeOf(n *Node, model string) (free []DeviceIndex, linked bool) {
	for i := range n.Devices {
		if d := &n.Devices[i]; d.free() && d.Model == model {
			free = append(free, DeviceIndex(i))
			linked = linked || len(d.Links) > 0
		}
	}
	return free, linked
}

// links says how well a group of devices is linked: how many links it has
// inside, and how many it cuts to devices that stay free.
type links struct{ inside, cut int }

// compare says which group is better: more links inside, then fewer cut.
func (l links) compare(other links) int {
	return cmp.Or(other.inside-l.inside, l.cut-other.cut)
}

// perfect says whether no group of count devices can be better.
func (l links) perfect(count int) bool { return l.inside == count*(count-1)/2 && l.cut == 0 }

// linksOf says how well count devices of a node can be linked.
func linksOf(n *Node, model string, count int) (best links) {
	if free, linked := freeOf(n, model); linked {
		_, best = bestLinked(n, free, count)
	}
	return best
}

// bestLinked grows a group from each free device in turn and answers the best
// group.
func bestLinked(n *Node, free []DeviceIndex, count int) ([]DeviceIndex, links) {
	var best []DeviceIndex
	var bestLinks links
	for _, seed := range free {
		group, inside := grow(n, seed, free, count)
		found := links{inside: inside, cut: -2 * inside} // links inside are counted from both ends
		for _, member := range group {
			found.cut += countLinks(n, member, free)
		}
		if best == nil || found.compare(bestLinks) < 0 {
			best, bestLinks = group, found
		}
	}
	slices.Sort(best)
	return best, bestLinks
}

// grow adds to the seed, always the device with the most links into the group;
// of several the one whose own free neighbours come closest to what is still
// wanted, so that a pair is completed by a pair. inside is the links within.
func grow(n *Node, seed DeviceIndex, free []DeviceIndex, count int) (group []DeviceIndex, inside int) {
	group = []DeviceIndex{seed}
	for len(group) < count {
		next, links, misfit := DeviceIndex(-1), -1, 0
		for _, candidate := range free {
			if slices.Contains(group, candidate) {
				continue
			}
			l := countLinks(n, candidate, group)
			m := countLinks(n, candidate, free) - l - (count - len(group) - 1)
			if l > links || l == links && max(m, -m) < misfit {
				next, links, misfit = candidate, l, max(m, -m)
			}
		}
		group = append(group, next)
		inside += links
	}
	return group, inside
}

// countLinks counts the devices of group that have a fast link to device.
func countLinks(n *Node, device DeviceIndex, group []DeviceIndex) int {
	links := 0
	for _, other := range group {
		if _, found := slices.BinarySearch(n.Devices[device].Links, other); found {
			links++
		}
	}
	return links
}
