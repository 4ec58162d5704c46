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
	w := newWant(r)
	low, _ := r.NodeBounds()
	least := Least{Nodes: uint64(low), NodeCPUs: product(w.slots, w.cpus)}
	least.CPUs = product(max(product(least.Nodes, w.slots), uint64(r.Tasks)), w.cpus)
	least.GPUs = max(product(least.Nodes, w.gpus), uint64(r.GPUsPerJob))
	least.NodeGPUs = w.gpus
	switch {
	case r.MemoryPerNode > 0:
		least.NodeMemoryBytes = r.MemoryPerNode
		least.MemoryBytes = product(least.Nodes, r.MemoryPerNode)
	case r.MemoryPerCPU > 0:
		least.NodeMemoryBytes = product(r.MemoryPerCPU, least.NodeCPUs)
		least.MemoryBytes = product(r.MemoryPerCPU, least.CPUs)
	default:
		least.WholeMemory = true
	}
	return least
}
