package place

import "math"

// NodeBounds is the fewest and the most nodes that the request may be placed
// on. The request is impossible if the fewest are more than the most.
func (r *Request) NodeBounds() (low, high uint32) {
	named := max(uint32(len(r.RequiredNodes)), r.Constraint.Nodes())
	low = max(r.MinNodes, named, 1)
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
		low, high = r.boundByTasks(named, low, high)
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

// boundByTasks is like sbatch, which lowers the number of nodes to that of the
// tasks. Where devices follow from the tasks, each node has some of both.
func (r *Request) boundByTasks(named, low, high uint32) (uint32, uint32) {
	together := max(r.TasksPerGPU, 1)
	units := r.Tasks / together
	most := max(units, named)
	if r.follows() {
		most = units
	} else {
		low = min(low, most)
	}
	if r.TasksPerNode > 0 {
		perNode := r.TasksPerNode / together
		if perNode == 0 {
			return low, 0
		}
		low = max(low, (units-1)/perNode+1)
	}
	if r.Tasks%together != 0 {
		return low, 0
	}
	return low, min(high, most)
}

// follows reports whether the devices on a node follow from its tasks.
func (r *Request) follows() bool { return r.GPUsPerTask > 0 || r.TasksPerGPU > 0 }

// WantsGPUs reports whether the request asks for devices.
func (r *Request) WantsGPUs() bool { return r.GPUsPerNode > 0 || r.GPUsPerJob > 0 || r.follows() }
