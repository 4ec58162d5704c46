package place

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// freeOn counts the devices of a model that can be given away.
func freeOn(n Node, model string) (free uint32) {
	for _, d := range n.Devices {
		if d.Model == model && d.Healthy && d.FreeShares == 1 {
			free++
		}
	}
	return free
}

// allowed reports whether a node may hold so many tasks and devices of a job, for
// itself: written down once more from what the request's fields say.
func allowed(n Node, r Request, model string, tasks, gpus uint32) bool {
	free := freeOn(n, model)
	switch {
	case gpus > free,
		r.GPUsPerNode > 0 && gpus != r.GPUsPerNode,
		r.GPUsPerJob > 0 && gpus == 0,
		r.GPUsPerTask > 0 && gpus != tasks*r.GPUsPerTask,
		r.TasksPerGPU > 0 && tasks != gpus*r.TasksPerGPU,
		!r.WantsGPUs() && gpus > 0,
		r.Tasks == 0 && tasks != max(r.TasksPerNode, 1),
		r.Tasks > 0 && r.TasksPerNode > 0 && tasks > r.TasksPerNode:
		return false
	}
	cpus := uint64(max(tasks, 1) * max(r.CPUsPerTask, 1))
	if r.CPUsPerGPU > 0 {
		cpus = uint64(max(tasks, 1, gpus*r.CPUsPerGPU))
	}
	if cpus > uint64(n.FreeCPUs.Count()) {
		return false
	}
	if r.Exclusive {
		cpus, gpus = uint64(n.FreeCPUs.Count()), free
	}
	switch {
	case r.MemoryPerNode > 0:
		return r.MemoryPerNode <= n.FreeMemory
	case r.MemoryPerCPU > 0:
		return r.MemoryPerCPU*cpus <= n.FreeMemory
	case r.MemoryPerGPU > 0:
		return r.MemoryPerGPU*uint64(gpus) <= n.FreeMemory
	}
	return n.FreeMemory == n.MemoryBytes
}

// takes reports whether the node may be part of the job at all.
func takes(n Node, r Request) bool {
	others := slices.ContainsFunc(n.Users, func(user uint32) bool { return user != r.User })
	return n.Available && !n.Exclusive && !(r.Exclusive && n.Busy) && !((n.UserOnly || r.ExclusiveUser) && others) &&
		!slices.Contains(r.ExcludedNodes, n.Name)
}

// meets evaluates an expression again.
func meets(n Node, e Expression) bool {
	if len(e) == 0 {
		return true
	}
	var stack []bool
	for _, step := range e {
		top := len(stack) - 1
		switch step.Op {
		case Has:
			stack = append(stack, slices.Contains(n.Features, step.Feature))
		case Not:
			stack[top] = !stack[top]
		default:
			joined := stack[top] && stack[top-1] || step.Op == Or && (stack[top] || stack[top-1])
			stack = append(stack[:top-1], joined)
		}
	}
	return stack[0]
}

// seats reports whether the groups can be filled from the nodes, one by one.
func seats(nodes []Node, groups []Group) bool {
	for i, group := range groups {
		if group.Count == 0 {
			continue
		}
		for at, n := range nodes {
			if !meets(n, group.Of) {
				continue
			}
			fewer := slices.Clone(groups)
			fewer[i].Count--
			if seats(slices.Delete(slices.Clone(nodes), at, at+1), fewer) {
				return true
			}
		}
		return false
	}
	return true
}

// together reports whether the nodes, ascending, may be one job's, apart from what
// is free on them; and how high the lowest switch above them is.
func together(nodes []Node, set []NodeIndex, r Request) (bool, uint32) {
	var chosen []Node
	named := 0
	leaves := make(map[string]bool)
	for i, index := range set {
		n := nodes[index]
		chosen = append(chosen, n)
		if slices.Contains(r.RequiredNodes, n.Name) {
			named++
		}
		if !takes(n, r) || !meets(n, r.Constraint.Each) || r.Contiguous && i > 0 && set[i-1] != index-1 {
			return false, 0
		}
		if n.leaf() != nil {
			leaves[n.leaf().Name] = true
		}
	}
	one := len(r.Constraint.OneOf) == 0
	for _, e := range r.Constraint.OneOf {
		one = one || !slices.ContainsFunc(chosen, func(n Node) bool { return !meets(n, e) })
	}
	if !one || named != len(r.RequiredNodes) || !seats(chosen, r.Constraint.Groups) {
		return false, 0
	}
	if !nodes[0].Wired || len(set) == 1 {
		return true, 0
	}
	if r.Switches > 0 && len(leaves) > int(r.Switches) {
		return false, 0
	}
	for _, above := range chosen[0].Above {
		if !slices.ContainsFunc(chosen, func(n Node) bool { return !slices.Contains(n.Above, above) }) {
			return true, above.Level
		}
	}
	return false, 0
}

// problem says what is wrong with a placement.
func problem(nodes []Node, r Request, p Placement) string {
	low, high := r.NodeBounds()
	if len(p.Allocs) < int(low) || len(p.Allocs) > int(high) {
		return fmt.Sprintf("%d nodes, not %d to %d", len(p.Allocs), low, high)
	}
	tasks, gpus, model := uint32(0), uint32(0), r.Model
	var set []NodeIndex
	for i, alloc := range p.Allocs {
		n := nodes[alloc.Node]
		if i > 0 && p.Allocs[i-1].Node >= alloc.Node {
			return "nodes are not ascending"
		}
		set = append(set, alloc.Node)
		for k, grant := range alloc.Devices {
			d := n.Devices[grant.Device]
			model = map[bool]string{true: d.Model, false: model}[model == ""]
			if d.Model != model || !d.Healthy || d.FreeShares != d.Shares || grant.Shares != d.Shares || k > 0 && alloc.Devices[k-1].Device >= grant.Device {
				return fmt.Sprintf("%s: device %d is not for this job", n.Name, grant.Device)
			}
		}
		here, asked := uint32(len(alloc.Devices)), uint32(len(alloc.Devices))
		switch {
		case r.Exclusive && r.GPUsPerNode > 0:
			asked = r.GPUsPerNode
		case r.Exclusive && r.GPUsPerJob > 0:
			asked = 1
		case r.Exclusive && r.GPUsPerTask > 0:
			asked = alloc.Tasks * r.GPUsPerTask
		case r.Exclusive && r.TasksPerGPU > 0:
			asked = alloc.Tasks / r.TasksPerGPU
		case r.Exclusive && !r.WantsGPUs():
			asked = 0
		}
		tasks, gpus = tasks+alloc.Tasks, gpus+here
		if here < asked || !allowed(n, r, model, alloc.Tasks, asked) && alloc.Tasks > 0 {
			return fmt.Sprintf("%s: %d tasks and %d devices", n.Name, alloc.Tasks, here)
		}
		if wrong := wrongAmounts(n, r, alloc); wrong != "" {
			return n.Name + ": " + wrong
		}
	}
	if may, _ := together(nodes, set, r); !may {
		return "the nodes are not for this job"
	}
	nodeCount := uint32(len(p.Allocs))
	switch {
	case r.Tasks > 0 && tasks != r.Tasks, r.Tasks == 0 && tasks != nodeCount*max(r.TasksPerNode, 1):
		return fmt.Sprintf("%d tasks", tasks)
	case r.GPUsPerJob > 0 && !r.Exclusive && gpus != r.GPUsPerJob, gpus < r.GPUsPerJob:
		return fmt.Sprintf("%d devices", gpus)
	}
	return ""
}

// wrongAmounts checks CPUs and memory of an allocation.
func wrongAmounts(n Node, r Request, alloc Alloc) string {
	cpus := max(alloc.Tasks, 1) * max(r.CPUsPerTask, 1)
	if r.CPUsPerGPU > 0 {
		cpus = max(alloc.Tasks, 1, uint32(len(alloc.Devices))*r.CPUsPerGPU)
	}
	switch {
	case !alloc.CPUs.Minus(n.FreeCPUs).Empty() || alloc.MemoryBytes > n.FreeMemory:
		return "more than is free"
	case r.Exclusive && !alloc.CPUs.Equal(n.CPUs):
		return "not all CPUs"
	case !r.Exclusive && alloc.CPUs.Count() != int(cpus):
		return fmt.Sprintf("%d CPUs for %d tasks", alloc.CPUs.Count(), alloc.Tasks)
	}
	want := n.MemoryBytes
	switch {
	case r.MemoryPerNode > 0:
		want = r.MemoryPerNode
	case r.MemoryPerCPU > 0:
		want = r.MemoryPerCPU * uint64(alloc.CPUs.Count())
	case r.MemoryPerGPU > 0:
		want = r.MemoryPerGPU * uint64(len(alloc.Devices))
	}
	if alloc.MemoryBytes != want {
		return "wrong memory"
	}
	return ""
}

// bestByTrying tries every set of nodes: how many nodes the best has, 0 if none
// can hold the job, and how high its lowest switch is.
func bestByTrying(nodes []Node, r Request) (best int, level uint32) {
	low, high := r.NodeBounds()
	for set := 1; set < 1<<len(nodes); set++ {
		size := bits.OnesCount(uint(set))
		if size < int(low) || size > int(high) {
			continue
		}
		var indices []NodeIndex
		for i := range nodes {
			if set>>i&1 == 1 {
				indices = append(indices, NodeIndex(i))
			}
		}
		may, height := together(nodes, indices, r)
		if !may {
			continue
		}
		better := best == 0 || size == best && height < level || size != best && (size > best) == r.MostNodes
		if better && slices.ContainsFunc(testModels, func(model string) bool {
			return (r.Model == "" || r.Model == model) && setHolds(nodes, indices, r, model)
		}) {
			best, level = size, height
		}
	}
	return best, level
}

// setHolds reports whether tasks and devices can be divided over the nodes.
func setHolds(nodes []Node, set []NodeIndex, r Request, model string) bool {
	type sums struct{ tasks, gpus uint32 }
	reached := map[sums]bool{{}: true}
	for _, index := range set {
		next := make(map[sums]bool)
		least := uint32(1)
		if r.Tasks > 0 && len(set) > int(r.Tasks) && allowed(nodes[index], r, model, 1, min(1, r.GPUsPerJob)) {
			least = 0
		}
		for tasks := least; tasks <= max(r.Tasks, r.TasksPerNode, 1); tasks++ {
			for gpus := range freeOn(nodes[index], model) + 1 {
				if !allowed(nodes[index], r, model, tasks, gpus) {
					continue
				}
				for sum := range reached {
					sum.tasks, sum.gpus = min(sum.tasks+tasks, max(r.Tasks, 1)), min(sum.gpus+gpus, max(r.GPUsPerJob, 1))
					next[sum] = true
				}
			}
		}
		reached = next
	}
	for sum := range reached {
		if sum.tasks >= r.Tasks && sum.gpus >= r.GPUsPerJob {
			return true
		}
	}
	return false
}

func TestFitAgainstEverySetOfNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	fitted, missed, constrained, near := 0, 0, 0, 0
	for range 30000 {
		nodes := randomNodes(random, 1+random.IntN(6))
		var candidates []NodeIndex
		for i := range nodes {
			candidates = append(candidates, NodeIndex(i))
		}
		r := randomRequest(random, nodes)
		before := fmt.Sprint(nodes)
		p, short, fits := Fit(nodes, candidates, r)
		if fmt.Sprint(nodes) != before {
			t.Fatal("Fit changed the nodes")
		}
		best, level := bestByTrying(nodes, r)
		exception := r.Tasks > 0 && r.GPUsPerJob > 0 // that the package states
		switch {
		case fits:
			fitted++
			if wrong := problem(nodes, r, p); wrong != "" {
				t.Fatalf("%s\nrequest %+v\nplacement %+v\nnodes %+v", wrong, r, p, nodes)
			}
			if len(p.Allocs) != best && !exception {
				t.Fatalf("%d nodes, %d would be better\nrequest %+v\nnodes %+v", len(p.Allocs), best, r, nodes)
			}
			var set []NodeIndex
			for _, alloc := range p.Allocs {
				set = append(set, alloc.Node)
			}
			if _, height := together(nodes, set, r); height != level && !exception {
				t.Fatalf("on a switch of level %d, there is one of level %d\nrequest %+v\nplacement %+v\nnodes %+v", height, level, r, p, nodes)
			}
			if !r.Constraint.IsZero() && len(set) > 1 {
				constrained++
			}
			if nodes[0].Wired && len(set) > 1 {
				near++
			}
		case best > 0 && exception:
			missed++
		case best > 0:
			t.Fatalf("does not fit (%+v), but %d nodes would do\nrequest %+v\nnodes %+v", short, best, r, nodes)
		case short.What == Nothing:
			t.Fatalf("no shortage is named\nrequest %+v\nnodes %+v", r, nodes)
		}
	}
	t.Logf("%d of 30000 fit, %d missed; of several nodes %d with constraints, %d on switches", fitted, missed, constrained, near)
	if fitted < 2000 || missed > 5 || constrained < 200 || near < 500 {
		t.Error("the requests are too tame, or too many are missed")
	}
}

func TestHugeRequestsAreRefusedNotComputed(t *testing.T) {
	most := ^uint32(0)
	nodes := []Node{nodeWith(2, nil)}
	for _, r := range []Request{
		{MinNodes: most, MaxNodes: most},
		{Tasks: most, CPUsPerTask: most},
		{TasksPerNode: most, CPUsPerTask: most},
		{Tasks: most, TasksPerNode: 1},
		{GPUsPerNode: most}, {GPUsPerJob: most}, {GPUsPerJob: most, Tasks: most},
		{Tasks: most, GPUsPerTask: most}, {Tasks: most, TasksPerGPU: most}, {TasksPerNode: most, GPUsPerTask: most},
		{GPUsPerNode: 1, CPUsPerGPU: most}, {GPUsPerJob: most, CPUsPerGPU: most},
		{MemoryPerNode: ^uint64(0)},
		{MemoryPerCPU: ^uint64(0), CPUsPerTask: 2},
		{MemoryPerCPU: ^uint64(0), Exclusive: true},
		{MemoryPerGPU: ^uint64(0), GPUsPerNode: 1},
		{Constraint: Constraint{Groups: []Group{{Count: most, Of: testExpressions[0]}, {Count: most}}}},
	} {
		_, short, fits := Fit(nodes, []NodeIndex{0}, r)
		if fits || short.What == Nothing || short.Need <= short.Have {
			t.Errorf("%+v: fits %v, %+v", r, fits, short)
		}
	}
	if _, short, fits := Fit(nil, nil, Request{}); fits || short.What != Nodes {
		t.Errorf("on no nodes: fits %v, %+v", fits, short)
	}
}
