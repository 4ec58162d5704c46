package place

import (
	"math"
	"slices"
)

// want is a request with what follows from it.
type want struct {
	*Request
	nodes     []Node
	wired     bool
	low, high int    // bounds of the number of nodes; impossible if low > high
	unit      unit   // what is laid out over the nodes
	units     uint64 // of the whole job; 0 = slots on each node
	slots     uint64 // units that each node must have room for
	perNode   uint64 // units that a node may have; 0 = any number
	gpus      uint64 // devices that each node must have, besides those of units
	spread    uint64 // devices of the whole job, to be divided over its nodes; 0 = gpus says it all
	memory    memoryRule
	model     string // of the devices that are looked at; "" = without any
}

// unit is what goes to one node together: a task, or where devices follow from
// tasks, what one task has, or what one device has.
type unit struct{ tasks, gpus, cpus uint64 }

func newWant(nodes []Node, r *Request) want {
	w := want{Request: r, nodes: nodes, wired: len(nodes) > 0 && nodes[0].Wired, slots: 1, gpus: uint64(r.GPUsPerNode)}
	w.unit = unit{tasks: uint64(max(r.TasksPerGPU, 1)), gpus: uint64(r.GPUsPerTask)}
	if r.TasksPerGPU > 0 {
		w.unit.gpus = 1
	}
	w.unit.cpus = product(w.unit.tasks, uint64(max(r.CPUsPerTask, 1)))
	if r.CPUsPerGPU > 0 {
		w.unit.cpus = max(w.unit.tasks, product(w.unit.gpus, uint64(r.CPUsPerGPU)))
	}
	switch perNode := uint64(r.TasksPerNode) / w.unit.tasks; {
	case r.Tasks > 0:
		w.units, w.perNode = uint64(r.Tasks)/w.unit.tasks, perNode
	case r.TasksPerNode > 0:
		w.slots = max(perNode, 1)
	}
	if r.GPUsPerJob > 0 && r.GPUsPerNode == 0 {
		w.spread, w.gpus = uint64(r.GPUsPerJob), 1
	}
	w.memory = memoryRuleOf(r)
	low, high := r.NodeBounds()
	w.low, w.high = int(low), int(min(high, math.MaxInt32))
	return w
}

// memoryRule says what the memory of a job on a node goes by.
type memoryRule uint8

const (
	allMemory memoryRule = iota
	memoryPerNode
	memoryPerCPU
	memoryPerGPU
)

func memoryRuleOf(r *Request) memoryRule {
	switch {
	case r.MemoryPerNode > 0:
		return memoryPerNode
	case r.MemoryPerCPU > 0:
		return memoryPerCPU
	case r.MemoryPerGPU > 0:
		return memoryPerGPU
	}
	return allMemory
}

// offer is what one node can contribute. There are many, so it is small.
type offer struct {
	groups    uint64 // of the constraint, a bit for each that it can count for
	node      NodeIndex
	leaf      int32  // its leaf switch; -1 = none
	leafWhole int32  // nodes of the offers on that switch that are whole
	cpus      uint32 // free, for requests without devices
	units     uint32 // that it has room for, as the request bounds them
	gpus      uint32 // free devices of the model, as many as CPUs and memory allow
	left      uint32 // free devices of any model
	required  bool
	// whole: nothing of it is in use that other jobs would want whole: all its
	// devices are free, or if it has none, no job is on it.
	whole bool
}

// named reports whether the node may be used at all, whatever is free on it.
func (w *want) named(n *Node) bool {
	if len(w.ExcludedNodes) > 0 {
		if _, excluded := slices.BinarySearch(w.ExcludedNodes, n.Name); excluded {
			return false
		}
	}
	return w.among(n) && w.Constraint.Each.Met(n.Features)
}

// among reports whether the node is one of those to which the request is narrowed.
func (r *Request) among(n *Node) bool {
	if r.AmongNodes == nil {
		return true
	}
	_, is := slices.BinarySearch(r.AmongNodes, n.Name)
	return is
}

// open reports whether the node takes this job besides those it has.
func (w *want) open(n *Node) bool {
	return n.Available && !n.Exclusive && !(w.Exclusive && n.Busy) && w.amongOwn(n)
}

// amongOwn reports whether the node has no jobs of users who must not share it
// with this one.
func (w *want) amongOwn(n *Node) bool {
	if !n.UserOnly && !w.ExclusiveUser {
		return true
	}
	return len(n.Users) == 0 || len(n.Users) == 1 && n.Users[0] == w.User
}

// capacity is the number of units that the node takes, at most as many as the
// request puts on a node, and of free devices that the job can use; no units if
// the node lacks what each node of the job must have.
func (w *want) capacity(n *Node, free uint64) (units, gpus uint64) {
	cpus := uint64(n.FreeCPUs.Count())
	fits := true
	switch w.memory {
	case memoryPerNode:
		fits = w.freeMemory(n) >= w.MemoryPerNode
	case memoryPerGPU:
		fits = !w.Exclusive || product(w.MemoryPerGPU, free) <= w.freeMemory(n)
	case memoryPerCPU:
		held := w.freeMemory(n) / w.MemoryPerCPU
		fits = !w.Exclusive || held >= cpus
		cpus = min(cpus, held)
	default:
		fits = w.freeMemory(n) >= w.wholeMemory(n)
	}
	cpus = w.withTmp(n, cpus)
	gpus = w.usable(n, free, cpus)
	if !fits || gpus < w.gpus {
		return 0, 0
	}
	units = cpus / w.unit.cpus
	if w.unit.gpus > 0 {
		units = min(units, gpus/w.unit.gpus)
	}
	switch {
	case units < w.slots:
		return 0, 0
	case w.units == 0:
		return w.slots, gpus
	case w.perNode > 0:
		units = min(units, w.perNode)
	}
	return min(units, w.units), gpus
}

// usable is how many of the free devices have the CPUs and the memory that each
// device of the job must have.
func (w *want) usable(n *Node, free, cpus uint64) uint64 {
	if w.CPUsPerGPU > 0 {
		free = min(free, cpus/uint64(w.CPUsPerGPU))
	}
	if w.memory == memoryPerGPU && !w.Exclusive {
		free = min(free, w.freeMemory(n)/w.MemoryPerGPU)
	}
	return free
}

// guestOn reports whether what is kept on the node is not for this job.
func (r *Request) guestOn(n *Node) bool {
	if len(r.GuestOn) == 0 {
		return false
	}
	_, is := slices.BinarySearch(r.GuestOn, n.Name)
	return is
}

// free reports whether a job, which may be a guest, can be given the device whole.
func (d *Device) free(guest bool) bool {
	return d.Healthy && d.Parent == WholeDevice && d.Shares > 0 && d.FreeShares == d.Shares && !(guest && d.Kept)
}

// freeGPUs counts the devices of one model, and of all, that are free for a job,
// which may be a guest, and the devices that would be free on the idle node.
func freeGPUs(n *Node, model string, guest bool) (ofModel, all, whole uint64) {
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Healthy && d.Parent == WholeDevice && d.Shares > 0 {
			whole++
		}
		if d.free(guest) {
			all++
			if d.Model == model {
				ofModel++
			}
		}
	}
	return ofModel, all, whole
}

// offers is what each candidate can contribute with devices of the model, those
// left out that cannot take part.
func (w *want) offers(candidates []NodeIndex) []offer {
	var offers []offer
	for i, index := range candidates {
		o, is := w.offerOf(index)
		if !is {
			continue
		}
		if offers == nil {
			offers = make([]offer, 0, len(candidates)-i)
		}
		offers = append(offers, o)
	}
	if w.wired {
		countWhole(offers)
	}
	return offers
}

// offerOf is what a node can contribute with devices of the model; false if it cannot
// take part.
func (w *want) offerOf(index NodeIndex) (offer, bool) {
	n := &w.nodes[index]
	if !w.open(n) || n.FreeCPUs.Empty() || !w.named(n) {
		return offer{}, false
	}
	o := offer{node: index, leaf: -1}
	_, all, whole := freeGPUs(n, w.model, w.guestOn(n))
	units, gpus := w.capacity(n, w.freeGPUs(n, w.model))
	if units == 0 {
		return offer{}, false
	}
	o.units, o.gpus, o.left = uint32(units), uint32(gpus), uint32(all)
	o.whole = all == whole && (whole > 0 || !n.Busy)
	if !w.WantsGPUs() {
		o.cpus = uint32(n.FreeCPUs.Count())
	}
	if len(w.RequiredNodes) > 0 {
		_, o.required = slices.BinarySearch(w.RequiredNodes, n.Name)
	}
	if len(w.Constraint.Groups) > 0 {
		o.groups = w.Constraint.groupsOf(n.Features)
	}
	if leaf := n.leaf(); leaf != nil {
		o.leaf = int32(leaf.Index)
	}
	return o, true
}

// countWhole notes how many whole nodes each leaf switch has.
func countWhole(offers []offer) {
	whole := make(map[int32]int32)
	for i := range offers {
		if offers[i].whole {
			whole[offers[i].leaf]++
		}
	}
	for i := range offers {
		offers[i].leafWhole = whole[offers[i].leaf]
	}
}

// models is the models that the job may be placed on, ascending; "" alone if
// it asks for no device.
func (w *want) models(candidates []NodeIndex) []string {
	if !w.WantsGPUs() || w.Model != "" {
		return []string{w.Model}
	}
	var models []string
	last := ""
	for _, index := range candidates {
		n := &w.nodes[index]
		guest := w.guestOn(n)
		for i := range n.Devices {
			if d := &n.Devices[i]; d.Model != last && d.free(guest) {
				last = d.Model
				if at, found := slices.BinarySearch(models, last); !found {
					models = slices.Insert(models, at, last)
				}
			}
		}
	}
	return models
}
