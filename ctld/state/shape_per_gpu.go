package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has the options of a request that count by GPUs or by tasks
// (sbatch(1)): --gpus-per-task, --ntasks-per-gpu, --cpus-per-gpu and
// --mem-per-gpu.

// maxImpliedTasks is as many tasks as --ntasks may request.
const maxImpliedTasks = 1 << 24

// fillPerGPU checks which options exclude each other, and derives the counts
// that the scheduler uses: where GPUs follow from tasks, or tasks from GPUs, it
// gets the tasks, and how many of them are on how many nodes.
func (s *Shape) fillPerGPU(asked *Spec) error {
	r := &s.Request
	memories := 0
	for _, given := range []bool{r.MemoryPerNode > 0, r.MemoryPerCPU > 0, r.MemoryPerGPU > 0, asked.AllMemory} {
		if given {
			memories++
		}
	}
	wants := r.WantsGPUs()
	switch {
	case memories > 1:
		return fmt.Errorf("--mem, --mem-per-cpu and --mem-per-gpu exclude each other: give one of them")
	case r.CPUsPerGPU > 0 && asked.CPUsPerTask > 0:
		return fmt.Errorf("--cpus-per-gpu and --cpus-per-task exclude each other: give one of them")
	case r.CPUsPerGPU > 0 && !wants && asked.TasksPerGPU == 0:
		return fmt.Errorf("--cpus-per-gpu counts by GPUs, and none are asked for: add --gpus, --gpus-per-node or --gpus-per-task")
	case r.MemoryPerGPU > 0 && !wants && asked.TasksPerGPU == 0:
		return fmt.Errorf("--mem-per-gpu counts by GPUs, and none are asked for: add --gpus, --gpus-per-node or --gpus-per-task")
	case asked.TasksPerGPU > 0:
		return linkTasksPerGPU(r, asked.TasksPerGPU)
	case r.GPUsPerTask > 0:
		return linkGPUsPerTask(r)
	}
	return nil
}

// implyTasks fills in the number of tasks that GPUs imply, as sbatch does, so
// that steps and accounting see it. What makes no sense stays: shapeOf refuses
// it.
func implyTasks(asked *Spec) {
	shape := Shape{Request: requestOf(asked)}
	if shape.fillGPUs(asked) == nil && shape.fillPerGPU(asked) == nil {
		asked.Tasks = shape.Request.Tasks
	}
}

// linkGPUsPerTask is for --gpus-per-task, which needs a number of tasks.
func linkGPUsPerTask(r *place.Request) error {
	each, perNode := uint64(r.GPUsPerTask), uint64(0)
	if r.GPUsPerNode > 0 {
		perNode = uint64(r.GPUsPerNode) / each
		if uint64(r.GPUsPerNode)%each != 0 {
			return fmt.Errorf("%d GPUs on each node cannot be %d for each task: make --gpus-per-node a multiple of --gpus-per-task", r.GPUsPerNode, each)
		}
		if r.TasksPerNode > 0 && uint64(r.TasksPerNode) != perNode {
			return fmt.Errorf("%d GPUs on each node, %d for each task, are %d tasks on each, not %d: leave --ntasks-per-node out", r.GPUsPerNode, each, perNode, r.TasksPerNode)
		}
	} else if fixedNodes(r) {
		perNode = uint64(r.TasksPerNode)
	}
	tasks := uint64(r.Tasks)
	switch total := uint64(r.GPUsPerJob); {
	case total > 0 && total%each != 0:
		return fmt.Errorf("%d GPUs in all cannot be %d for each task: make --gpus a multiple of --gpus-per-task", total, each)
	case total > 0 && tasks > 0 && tasks*each != total:
		return fmt.Errorf("%d tasks with %d GPUs each need %d GPUs, not %d: leave --gpus or --ntasks out", tasks, each, tasks*each, total)
	case total > 0:
		tasks = total / each
	case tasks == 0 && perNode > 0 && fixedNodes(r):
		tasks = uint64(r.MinNodes) * perNode
	case tasks == 0:
		return fmt.Errorf("--gpus-per-task needs a number of tasks: add --ntasks, or --gpus for all of them together")
	}
	if r.GPUsPerNode == 0 {
		perNode = 0
	}
	return settle(r, tasks, perNode)
}

// linkTasksPerGPU is for --ntasks-per-gpu: of tasks and GPUs, one number
// follows from the other.
func linkTasksPerGPU(r *place.Request, each32 uint32) error {
	each, tasks := uint64(each32), uint64(r.Tasks)
	perNode := uint64(r.GPUsPerNode) * each
	total := uint64(r.GPUsPerJob)
	switch {
	case r.GPUsPerTask > 0:
		return fmt.Errorf("--ntasks-per-gpu and --gpus-per-task exclude each other: give one of them")
	case r.TasksPerNode > 0:
		return fmt.Errorf("--ntasks-per-gpu and --ntasks-per-node exclude each other: give one of them")
	case r.MaxNodes > r.MinNodes:
		return fmt.Errorf("--ntasks-per-gpu does not go with a range of nodes: give one number of --nodes")
	case tasks > 0 && tasks%each != 0:
		return fmt.Errorf("%d tasks cannot be %d on each GPU: make --ntasks a multiple of --ntasks-per-gpu", tasks, each)
	case tasks > 0 && total > 0 && total*each != tasks:
		return fmt.Errorf("%d GPUs with %d tasks each make %d tasks, not %d: leave --gpus or --ntasks out", total, each, total*each, tasks)
	case tasks == 0 && total > 0:
		tasks = total * each
	case tasks == 0 && perNode > 0:
		tasks = uint64(max(r.MinNodes, 1)) * perNode
	case tasks == 0:
		return fmt.Errorf("--ntasks-per-gpu needs a number of tasks or of GPUs: add --ntasks, --gpus or --gpus-per-node")
	}
	r.TasksPerGPU = each32
	return settle(r, tasks, perNode)
}

// fixedNodes reports whether the number of nodes was given as one number.
func fixedNodes(r *place.Request) bool {
	return r.MinNodes > 0 && (r.MaxNodes == 0 || r.MaxNodes == r.MinNodes)
}

// settle notes the tasks that GPUs follow from; perNode of them are on each
// node, if GPUs were counted by nodes.
func settle(r *place.Request, tasks, perNode uint64) error {
	if tasks > maxImpliedTasks {
		return fmt.Errorf("%d tasks are too many: at most %d", tasks, maxImpliedTasks)
	}
	r.Tasks, r.GPUsPerNode, r.GPUsPerJob = uint32(tasks), 0, 0
	if perNode == 0 {
		return nil
	}
	nodes := tasks / perNode
	low, high := uint64(max(r.MinNodes, 1)), uint64(r.MaxNodes)
	if high == 0 {
		high = max(uint64(r.MinNodes), nodes)
	}
	if tasks%perNode != 0 || nodes < low || nodes > high {
		return fmt.Errorf("%d tasks are not %d on each node: with --gpus-per-node, make --ntasks as many as the nodes' GPUs need, or leave it out", tasks, perNode)
	}
	r.TasksPerNode, r.MinNodes, r.MaxNodes = uint32(perNode), uint32(nodes), uint32(nodes)
	return nil
}
