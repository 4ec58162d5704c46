package place

import "slices"

// Stay is what a job that stays on a node means for others that may join it.
type Stay struct {
	User      uint32
	UserOnly  bool
	Exclusive bool
}

// Release gives back what a placement took: the opposite of Take. staying are
// the jobs that each of its nodes has then. nodes is changed in place, but the
// lists that nodes shares with others are copied first.
func Release(nodes []Node, p Placement, staying func(NodeIndex) []Stay) {
	for i := range p.Allocs {
		alloc := &p.Allocs[i]
		n := &nodes[alloc.Node]
		n.FreeCPUs = n.FreeCPUs.Union(alloc.CPUs.Intersect(n.CPUs))
		n.FreeMemory = min(n.FreeMemory+alloc.MemoryBytes, n.MemoryBytes)
		n.FreeTmp = min(n.FreeTmp+alloc.TmpBytes, n.TmpBytes)
		if alloc.Guest {
			n.Guests.release(alloc)
		}
		n.share(staying(alloc.Node))
		if len(alloc.Devices) == 0 {
			continue
		}
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range alloc.Devices {
			d := &n.Devices[grant.Device]
			d.FreeShares = min(d.FreeShares+grant.Shares, d.Shares)
		}
	}
}

// ReleaseCPUs gives back the CPUs of allocations and nothing else, of jobs that stay
// where they are; TakeCPUs is the opposite.
func ReleaseCPUs(nodes []Node, allocs []Alloc) {
	for i := range allocs {
		n := &nodes[allocs[i].Node]
		n.FreeCPUs = n.FreeCPUs.Union(allocs[i].CPUs.Intersect(n.CPUs))
	}
}

// HasBack reports whether the CPUs and devices of an allocation are free, for a job
// that has its other parts still.
func HasBack(nodes []Node, alloc Alloc) bool {
	n := &nodes[alloc.Node]
	if !alloc.CPUs.Minus(n.FreeCPUs).Empty() {
		return false
	}
	for _, grant := range alloc.Devices {
		if d := &n.Devices[grant.Device]; !d.Healthy || d.FreeShares < grant.Shares {
			return false
		}
	}
	return true
}

// TakeBack books the CPUs and devices of allocations, as far as they are free. The
// lists that nodes shares with others are copied first.
func TakeBack(nodes []Node, allocs []Alloc) {
	TakeCPUs(nodes, allocs)
	for i := range allocs {
		n := &nodes[allocs[i].Node]
		if len(allocs[i].Devices) > 0 {
			n.Devices = slices.Clone(n.Devices)
		}
		for _, grant := range allocs[i].Devices {
			d := &n.Devices[grant.Device]
			d.FreeShares -= min(grant.Shares, d.FreeShares)
		}
	}
}

// TakeCPUs books the CPUs of allocations.
func TakeCPUs(nodes []Node, allocs []Alloc) {
	for i := range allocs {
		n := &nodes[allocs[i].Node]
		n.FreeCPUs = n.FreeCPUs.Minus(allocs[i].CPUs)
	}
}

// Joins reports whether a job may share the node with those that are there.
func (n *Node) Joins(job Stay) bool {
	w := want{Request: &Request{Exclusive: job.Exclusive, ExclusiveUser: job.UserOnly, User: job.User}}
	return !n.Exclusive && !(job.Exclusive && n.Busy) && w.amongOwn(n)
}

// share notes who is on the node.
func (n *Node) share(jobs []Stay) {
	n.Busy, n.Exclusive, n.UserOnly, n.Users = len(jobs) > 0, false, false, nil
	for _, job := range jobs {
		n.Exclusive = n.Exclusive || job.Exclusive
		n.UserOnly = n.UserOnly || job.UserOnly
		if at, there := slices.BinarySearch(n.Users, job.User); !there {
			n.Users = slices.Insert(n.Users, at, job.User)
		}
	}
}

// Park gives back the CPUs and devices of a placement, whose job stays in memory
// only. A guest comes back, so it still counts among the node's guests. staying are the jobs that each of its nodes has then. nodes is changed as
// by Release.
func Park(nodes []Node, p Placement, staying func(NodeIndex) []Stay) {
	for i := range p.Allocs {
		alloc := p.Allocs[i]
		nodes[alloc.Node].ParkedMemory += alloc.MemoryBytes
		alloc.MemoryBytes, alloc.TmpBytes, alloc.Guest = 0, 0, false
		Release(nodes, Placement{Allocs: []Alloc{alloc}}, staying)
	}
}

// Unpark is the opposite.
func Unpark(nodes []Node, p Placement, exclusive bool) {
	for i := range p.Allocs {
		alloc := p.Allocs[i]
		nodes[alloc.Node].ParkedMemory -= alloc.MemoryBytes
		alloc.MemoryBytes, alloc.TmpBytes, alloc.Guest = 0, 0, false
		Take(nodes, Placement{Allocs: []Alloc{alloc}, User: p.User, UserOnly: p.UserOnly}, exclusive)
	}
}
