package place

import (
	"math"
	"slices"
)

// want is a request with what follows from it.
type want struct {
	*Request
	low, high int    // bounds of the number of nodes; impossible if low > high
	cpus      uint64 // per task
	slots     uint64 // tasks that each node must have room for
	gpus      uint64 // devices that each node must have
	spread    uint64 // devices of the whole job, to be divided over its nodes; 0 = gpus says it all
}

func newWant(r *Request) want {
	w := want{Request: r, cpus: uint64(max(r.CPUsPerTask, 1)), slots: 1, gpus: uint64(r.GPUsPerNode)}
	if r.Tasks == 0 && r.TasksPerNode > 0 {
		w.slots = uint64(r.TasksPerNode)
	}
	if r.GPUsPerJob > 0 && r.GPUsPerNode == 0 {
		w.spread, w.gpus = uint64(r.GPUsPerJob), 1
	}
	low, high := r.NodeBounds()
	w.low, w.high = int(low), int(min(high, math.MaxInt32))
	return w
}

// NodeBounds is the fewest and the most nodes that the request may be placed
// on. The request is impossible if the fewest are more than the most.
func (r *Request) NodeBounds() (low, high uint32) {
	required := uint32(len(r.RequiredNodes))
	low = max(r.MinNodes, required, 1)
	switch {
	case r.MaxNodes > 0:
		high = r.MaxNodes
	case r.MinNodes > 0:
		high = r.MinNodes
	case r.Tasks > 0 || r.GPUsPerJob > 0:
		high = math.MaxUint32
	default:
		high = low
	}
	if r.Tasks > 0 {
		// Like sbatch, which lowers the number of nodes to that of the tasks.
		most := max(r.Tasks, required)
		low, high = min(low, most), min(high, most)
		if r.TasksPerNode > 0 {
			low = max(low, (r.Tasks-1)/r.TasksPerNode+1)
		}
	}
	if r.GPUsPerJob > 0 {
		high = min(high, r.GPUsPerJob)
		if r.GPUsPerNode > 0 {
			nodes := r.GPUsPerJob / r.GPUsPerNode
			low, high = max(low, nodes), min(high, nodes)
			if r.GPUsPerJob%r.GPUsPerNode != 0 {
				high = 0
			}
		}
	}
	return low, high
}

// WantsGPUs says whether the request asks for devices.
func (r *Request) WantsGPUs() bool { return r.GPUsPerNode > 0 || r.GPUsPerJob > 0 }

// offer is what one node can contribute.
type offer struct {
	node     NodeIndex
	required bool
	tasks    uint64 // that it has room for, as the request bounds them
	gpus     uint64 // free devices of the model
	left     uint64 // free devices of any model
}

// named says whether the node may be used at all, whatever is free on it.
func (w *want) named(n *Node) bool {
	if _, excluded := slices.BinarySearch(w.ExcludedNodes, n.Name); excluded {
		return false
	}
	return hasAll(n.Features, w.Features)
}

// hasAll says whether the ascending list holds all of the ascending wanted.
func hasAll(list, wanted []string) bool {
	for _, feature := range wanted {
		if _, found := slices.BinarySearch(list, feature); !found {
			return false
		}
	}
	return true
}

// open says whether the node takes this job beside those it has.
func (w *want) open(n *Node) bool {
	return n.Available && !n.Exclusive && !(w.Exclusive && n.Busy)
}

// room is the number of tasks that the node's CPUs and memory take, at most as
// many as the request puts on a node; 0 if it has not even what each node of
// the job must have.
func (w *want) room(n *Node) uint64 {
	tasks := min(w.cpuRoom(n), w.memoryRoom(n))
	if tasks < w.slots {
		return 0
	}
	switch {
	case w.Tasks == 0:
		return w.slots
	case w.TasksPerNode > 0:
		return min(tasks, uint64(w.TasksPerNode), uint64(w.Tasks))
	}
	return min(tasks, uint64(w.Tasks))
}

func (w *want) cpuRoom(n *Node) uint64 { return uint64(n.FreeCPUs.Count()) / w.cpus }

func (w *want) memoryRoom(n *Node) uint64 {
	fits := false
	switch {
	case w.MemoryPerNode > 0:
		fits = n.FreeMemory >= w.MemoryPerNode
	case w.MemoryPerCPU > 0 && w.Exclusive:
		fits = n.FreeMemory/w.MemoryPerCPU >= uint64(n.FreeCPUs.Count())
	case w.MemoryPerCPU > 0:
		return n.FreeMemory / w.MemoryPerCPU / w.cpus
	default:
		fits = n.FreeMemory == n.MemoryBytes
	}
	if fits {
		return math.MaxUint64
	}
	return 0
}

// free says whether a job can be given the device whole.
func (d *Device) free() bool {
	return d.Healthy && d.Parent == WholeDevice && d.Shares > 0 && d.FreeShares == d.Shares
}

// freeGPUs counts the free devices of one model, and of all.
func freeGPUs(n *Node, model string) (ofModel, all uint64) {
	for i := range n.Devices {
		if d := &n.Devices[i]; d.free() {
			all++
			if d.Model == model {
				ofModel++
			}
		}
	}
	return ofModel, all
}

// offers is what each candidate can contribute with devices of one model,
// those left out that cannot take part.
func (w *want) offers(nodes []Node, candidates []NodeIndex, model string) []offer {
	var offers []offer
	for _, index := range candidates {
		n := &nodes[index]
		if !w.open(n) || n.FreeCPUs.Empty() || !w.named(n) {
			continue
		}
		o := offer{node: index, tasks: w.room(n)}
		if o.tasks == 0 {
			continue
		}
		if o.gpus, o.left = freeGPUs(n, model); o.gpus < w.gpus {
			continue
		}
		if len(w.RequiredNodes) > 0 {
			_, o.required = slices.BinarySearch(w.RequiredNodes, n.Name)
		}
		offers = append(offers, o)
	}
	return offers
}

// models is the models that the job may be placed on, ascending; "" alone if
// it asks for no device.
func (w *want) models(nodes []Node, candidates []NodeIndex) []string {
	if !w.WantsGPUs() || w.Model != "" {
		return []string{w.Model}
	}
	var models []string
	last := ""
	for _, index := range candidates {
		for i := range nodes[index].Devices {
			if d := &nodes[index].Devices[i]; d.Model != last && d.free() {
				last = d.Model
				if at, found := slices.BinarySearch(models, last); !found {
					models = slices.Insert(models, at, last)
				}
			}
		}
	}
	return models
}
