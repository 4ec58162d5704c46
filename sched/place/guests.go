package place

// Guests bounds what jobs have on a node all together that do not own it. The zero Guests
// bounds nothing.
type Guests struct {
	Bound                  bool // what follows counts
	GPUs, FreeGPUs         uint32
	MemoryBytes, FreeBytes uint64
	TmpBytes, FreeTmp      uint64
}

// bound reports whether the request would make a guest on the node, and what guests have
// there is bounded.
func (r *Request) bound(n *Node) bool { return n.Guests.Bound && r.guestOn(n) }

// freeMemory is what the request may have of the node's memory.
func (w *want) freeMemory(n *Node) uint64 {
	if w.bound(n) {
		return min(n.FreeMemory, n.Guests.FreeBytes)
	}
	return n.FreeMemory
}

// wholeMemory is what the request gets if it gets all memory of the node.
func (w *want) wholeMemory(n *Node) uint64 {
	if w.bound(n) {
		return min(n.wholeMemory(), n.Guests.MemoryBytes)
	}
	return n.wholeMemory()
}

// freeTmp is what the request may have of the node's disk.
func (w *want) freeTmp(n *Node) uint64 {
	if w.bound(n) {
		return min(n.FreeTmp, n.Guests.FreeTmp)
	}
	return n.FreeTmp
}

// freeGPUs is how many of the free devices of a model the request may have.
func (w *want) freeGPUs(n *Node, model string) uint64 {
	free, _, _ := freeGPUs(n, model, w.guestOn(n))
	if w.bound(n) {
		free = min(free, uint64(n.Guests.FreeGPUs))
	}
	return free
}

// take books what a guest gets.
func (g *Guests) take(alloc *Alloc) {
	g.FreeGPUs -= min(uint32(len(alloc.Devices)), g.FreeGPUs)
	g.FreeBytes -= min(alloc.MemoryBytes, g.FreeBytes)
	g.FreeTmp -= min(alloc.TmpBytes, g.FreeTmp)
}

// release is the opposite.
func (g *Guests) release(alloc *Alloc) {
	g.FreeGPUs = min(g.FreeGPUs+uint32(len(alloc.Devices)), g.GPUs)
	g.FreeBytes += min(alloc.MemoryBytes, g.MemoryBytes-g.FreeBytes)
	g.FreeTmp += min(alloc.TmpBytes, g.TmpBytes-g.FreeTmp)
}

// idle is with no guest on the node.
func (g Guests) idle() Guests {
	g.FreeGPUs, g.FreeBytes, g.FreeTmp = g.GPUs, g.MemoryBytes, g.TmpBytes
	return g
}

// SameGuests reports whether two nodes have the same bounds, whatever is free.
func SameGuests(a, b Node) bool { return a.Guests.idle() == b.Guests.idle() }
