package place

// Least is the least that any placement of a request holds. All of it is a
// lower bound: a job that gets its nodes alone, or all memory of them, holds
// more.
type Least struct {
	Nodes, CPUs, MemoryBytes, GPUs uint64
	// What some node of the job holds at least.
	NodeCPUs, NodeMemoryBytes, NodeGPUs uint64
	// WholeMemory: it names no amount of memory, and gets all of its nodes'.
	WholeMemory bool
}

// Least follows from the request alone. Sums stop at the highest number.
func (r *Request) Least() Least {
	w := newWant(nil, r)
	low, _ := r.NodeBounds()
	nodes, perGPU := uint64(low), uint64(r.CPUsPerGPU)
	units := max(product(nodes, w.slots), w.units)
	least := Least{Nodes: nodes}
	least.NodeGPUs = max(w.gpus, product(w.slots, w.unit.gpus))
	least.GPUs = max(product(nodes, least.NodeGPUs), uint64(r.GPUsPerJob), product(units, w.unit.gpus))
	least.NodeCPUs = max(product(w.slots, w.unit.cpus), product(least.NodeGPUs, perGPU))
	least.CPUs = max(product(nodes, least.NodeCPUs), product(units, w.unit.cpus), product(least.GPUs, perGPU))
	switch w.memory {
	case memoryPerNode:
		least.NodeMemoryBytes, least.MemoryBytes = r.MemoryPerNode, product(nodes, r.MemoryPerNode)
	case memoryPerCPU:
		least.NodeMemoryBytes, least.MemoryBytes = product(r.MemoryPerCPU, least.NodeCPUs), product(r.MemoryPerCPU, least.CPUs)
	case memoryPerGPU:
		least.NodeMemoryBytes, least.MemoryBytes = product(r.MemoryPerGPU, least.NodeGPUs), product(r.MemoryPerGPU, least.GPUs)
	default:
		least.WholeMemory = true
	}
	return least
}
