package place

import "slices"

// placement gives the chosen nodes their tasks, CPUs, memory and devices.
func (w *want) placement(nodes []Node, shares []share, model string) Placement {
	parts := make([]Part, len(shares))
	tasks := w.layOut(shares)
	if w.Exclusive && !w.WantsGPUs() && model == "" {
		model = onlyModel(nodes, shares)
	}
	for i, s := range shares {
		n := &nodes[s.node]
		take := s.take
		if w.Exclusive {
			take, _ = freeGPUs(n, model)
		}
		devices, near := pickDevices(n, model, int(take))
		cpus := n.FreeCPUs
		if !w.Exclusive {
			cpus = pickCPUs(n.FreeCPUs, near, int(max(tasks[i], 1)*w.cpus))
		}
		parts[i] = Part{Node: s.node, CPUs: cpus, MemoryBytes: w.memory(n, cpus), Devices: devices, Tasks: uint32(tasks[i])}
	}
	return Placement{Parts: parts}
}

// layOut is Slurm's block distribution: a task on each node, then as many as
// fit on the first node, on the second, and so on.
func (w *want) layOut(shares []share) []uint64 {
	tasks := make([]uint64, len(shares))
	if w.Tasks == 0 {
		for i := range shares {
			tasks[i] = shares[i].tasks
		}
		return tasks
	}
	rest := uint64(w.Tasks)
	for i := range tasks {
		if rest > 0 {
			tasks[i] = 1
			rest--
		}
	}
	for i := range tasks {
		more := min(rest, shares[i].tasks-min(shares[i].tasks, tasks[i]))
		tasks[i] += more
		rest -= more
	}
	return tasks
}

func (w *want) memory(n *Node, cpus CPUSet) uint64 {
	switch {
	case w.MemoryPerNode > 0:
		return w.MemoryPerNode
	case w.MemoryPerCPU > 0:
		return w.MemoryPerCPU * uint64(cpus.Count())
	}
	return n.MemoryBytes
}

// onlyModel is the model of all free devices on the nodes, or "" if there are
// several: a job never holds devices of two models, so one that has its nodes
// alone and named no model then gets none.
func onlyModel(nodes []Node, shares []share) string {
	model := ""
	for _, s := range shares {
		for i := range nodes[s.node].Devices {
			d := &nodes[s.node].Devices[i]
			switch {
			case !d.free() || d.Model == model:
			case model == "":
				model = d.Model
			default:
				return ""
			}
		}
	}
	return model
}

// pickCPUs takes n of the free CPUs, those near the devices first.
func pickCPUs(free, near CPUSet, n int) CPUSet {
	if near.Empty() {
		return free.Take(n)
	}
	first := free.Intersect(near).Take(n)
	return first.Union(free.Minus(first).Take(n - first.Count()))
}

// pickDevices takes count free devices of a model: those with the most links
// to each other, then those that break the fewest links to devices that stay
// free, then the lowest. near is the CPUs near them, empty if that is all.
func pickDevices(n *Node, model string, count int) (grants []Grant, near CPUSet) {
	if count == 0 {
		return nil, CPUSet{}
	}
	var free []DeviceIndex
	linked := false
	for i := range n.Devices {
		if d := &n.Devices[i]; d.free() && d.Model == model {
			free = append(free, DeviceIndex(i))
			linked = linked || len(d.Links) > 0
		}
	}
	chosen := free[:count]
	if linked && count < len(free) {
		chosen = bestLinked(n, free, count)
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

// bestLinked grows a group from each free device in turn and answers the best
// group.
func bestLinked(n *Node, free []DeviceIndex, count int) []DeviceIndex {
	var best []DeviceIndex
	bestInside, bestCut := -1, 0
	for _, seed := range free {
		group, inside := grow(n, seed, free, count)
		cut := -2 * inside // links inside the group are counted from both ends
		for _, member := range group {
			cut += countLinks(n, member, free)
		}
		if inside > bestInside || inside == bestInside && cut < bestCut {
			best, bestInside, bestCut = group, inside, cut
		}
	}
	slices.Sort(best)
	return best
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

// Take books a placement: nodes is changed in place, but the device lists that
// nodes shares with others are copied first.
func Take(nodes []Node, p Placement, exclusive bool) {
	for _, part := range p.Parts {
		n := &nodes[part.Node]
		n.FreeCPUs = n.FreeCPUs.Minus(part.CPUs)
		n.FreeMemory -= part.MemoryBytes
		n.Busy = true
		n.Exclusive = n.Exclusive || exclusive
		if len(part.Devices) == 0 {
			continue
		}
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range part.Devices {
			n.Devices[grant.Device].FreeShares -= grant.Shares
		}
	}
}

// Idle is the node as it would be with no job on it, and if healed, available
// and with all its devices healthy.
func Idle(n Node, healed bool) Node {
	n.FreeCPUs, n.FreeMemory = n.CPUs, n.MemoryBytes
	n.Busy, n.Exclusive = false, false
	n.Available = n.Available || healed
	n.Devices = slices.Clone(n.Devices)
	for i := range n.Devices {
		d := &n.Devices[i]
		d.FreeShares = d.Shares
		d.Healthy = d.Healthy || healed
	}
	return n
}
