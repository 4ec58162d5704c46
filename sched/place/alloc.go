package place

import "slices"

// placement gives the chosen nodes their tasks, CPUs, memory and devices.
func (w *want) placement(shares []share) Placement {
	allocs := make([]Alloc, len(shares))
	model := w.model
	if w.Exclusive && !w.WantsGPUs() && model == "" {
		model = w.onlyModel(shares)
	}
	for i, s := range shares {
		n := &w.nodes[s.node]
		take := s.take
		if w.Exclusive {
			take = w.freeGPUs(n, model)
		}
		devices, near := pickDevices(n, model, int(take), w.guestOn(n))
		cpus := n.FreeCPUs
		if !w.Exclusive {
			cpus = pickCPUs(n.FreeCPUs, near, n.AwaitedCPUs, int(w.cpusOf(s)))
		}
		allocs[i] = Alloc{
			Node: s.node, CPUs: cpus, MemoryBytes: w.memoryOf(n, cpus, len(devices)), TmpBytes: w.tmpOf(n, cpus),
			Devices: devices, Tasks: uint32(s.lay * w.unit.tasks), Guest: w.bound(n),
		}
	}
	return Placement{Allocs: allocs, User: w.User, UserOnly: w.ExclusiveUser}
}

// cpusOf is how many CPUs a share has: what its tasks have, and where CPUs go
// by devices, at least what those have.
func (w *want) cpusOf(s share) uint64 {
	return max(s.take*uint64(w.CPUsPerGPU), max(s.lay, 1)*w.unit.cpus)
}

func (w *want) memoryOf(n *Node, cpus CPUSet, devices int) uint64 {
	switch w.memory {
	case memoryPerNode:
		return w.MemoryPerNode
	case memoryPerCPU:
		return w.MemoryPerCPU * uint64(cpus.Count())
	case memoryPerGPU:
		return w.MemoryPerGPU * uint64(devices)
	}
	return w.wholeMemory(n)
}

// wholeMemory is what a job gets that gets all memory of the node.
func (n *Node) wholeMemory() uint64 { return n.MemoryBytes - min(n.ParkedMemory, n.MemoryBytes) }

// onlyModel is the model of all free devices on the nodes, or "" if there are
// several: a job never holds devices of two models, so one that has its nodes
// alone and named no model then gets none.
func (w *want) onlyModel(shares []share) string {
	model := ""
	for _, s := range shares {
		n := &w.nodes[s.node]
		guest := w.guestOn(n)
		for i := range n.Devices {
			d := &n.Devices[i]
			switch {
			case !d.free(guest) || d.Model == model:
			case model == "":
				model = d.Model
			default:
				return ""
			}
		}
	}
	return model
}

// pickCPUs takes n of the free CPUs: those for which no suspended job waits first, and of
// these those near the devices.
func pickCPUs(free, near, awaited CPUSet, n int) CPUSet {
	if awaited.Empty() {
		return pickNear(free, near, n)
	}
	first := pickNear(free.Minus(awaited), near, n)
	return first.Union(pickNear(free.Minus(first), near, n-first.Count()))
}

// pickNear takes n of the free CPUs, those near the devices first.
func pickNear(free, near CPUSet, n int) CPUSet {
	if near.Empty() {
		return free.Take(n)
	}
	first := free.Intersect(near).Take(n)
	return first.Union(free.Minus(first).Take(n - first.Count()))
}

// Take books a placement: nodes is changed in place, but the lists that nodes
// shares with others are copied first.
func Take(nodes []Node, p Placement, exclusive bool) {
	for _, alloc := range p.Allocs {
		n := &nodes[alloc.Node]
		n.FreeCPUs = n.FreeCPUs.Minus(alloc.CPUs)
		n.FreeMemory -= alloc.MemoryBytes
		n.FreeTmp -= min(alloc.TmpBytes, n.FreeTmp)
		if alloc.Guest {
			n.Guests.take(&alloc)
		}
		n.Busy = true
		n.Exclusive = n.Exclusive || exclusive
		n.UserOnly = n.UserOnly || p.UserOnly
		if at, there := slices.BinarySearch(n.Users, p.User); !there {
			n.Users = slices.Insert(slices.Clone(n.Users), at, p.User)
		}
		if len(alloc.Devices) == 0 {
			continue
		}
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range alloc.Devices {
			n.Devices[grant.Device].FreeShares -= grant.Shares
		}
	}
}

// Idle is the node as it would be with no job on it, and if healed, available
// and with all its devices healthy.
func Idle(n Node, healed bool) Node {
	n.FreeCPUs, n.FreeMemory, n.FreeTmp, n.ParkedMemory = n.CPUs, n.MemoryBytes, n.TmpBytes, 0
	n.Busy, n.Exclusive, n.UserOnly, n.Users = false, false, false, nil
	n.Available, n.Guests = n.Available || healed, n.Guests.idle()
	idle := true
	for i := range n.Devices {
		d := &n.Devices[i]
		idle = idle && d.FreeShares == d.Shares && (d.Healthy || !healed)
	}
	if idle {
		return n
	}
	n.Devices = slices.Clone(n.Devices)
	for i := range n.Devices {
		d := &n.Devices[i]
		d.FreeShares = d.Shares
		d.Healthy = d.Healthy || healed
	}
	return n
}
