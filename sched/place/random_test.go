package place

import (
	"fmt"
	"math/rand/v2"
)

// This file makes up clusters and requests.

var testModels = []string{"a100", "v100"}

// randomNodes is a small cluster, some of it in use, some on switches.
func randomNodes(random *rand.Rand, count int) []Node {
	nodes := make([]Node, count)
	for i := range nodes {
		cpus := FirstCPUs(1 + random.Uint32N(8))
		memory := uint64(1+random.IntN(8)) << 30
		n := Node{
			Name: fmt.Sprintf("n%d", i), Available: random.IntN(8) > 0,
			CPUs: cpus, FreeCPUs: cpus, MemoryBytes: memory, FreeMemory: memory,
		}
		for d := range random.IntN(5) {
			n.Devices = append(n.Devices, Device{
				Index: uint32(d), Model: testModels[random.IntN(2)], Healthy: random.IntN(10) > 0,
				Parent: WholeDevice, Shares: 1, FreeShares: uint32(min(1, random.IntN(4))), Links: []DeviceIndex{DeviceIndex(d ^ 1)},
			})
		}
		if random.IntN(3) == 0 {
			n.Busy = true
			n.FreeCPUs = cpus.Minus(NewCPUSet(random.Uint32N(8), random.Uint32N(8)))
			n.FreeMemory -= memory / 4
			n.Exclusive = random.IntN(6) == 0
			n.Users = [][]uint32{{1}, {2}, {1, 2}}[random.IntN(3)]
			n.UserOnly = len(n.Users) == 1 && random.IntN(2) == 0
		}
		for _, feature := range []string{"a", "b", "c"} {
			if random.IntN(2) == 0 {
				n.Features = append(n.Features, feature)
			}
		}
		nodes[i] = n
	}
	if random.IntN(3) == 0 {
		return nodes
	}
	return Wire(nodes, randomSwitches(random, count))
}

// randomSwitches is two or three leaves, and mostly a switch above them.
func randomSwitches(random *rand.Rand, nodes int) []Switch {
	switches := make([]Switch, 2+random.IntN(2))
	var attached []NodeIndex
	for i := range switches {
		switches[i].Name = fmt.Sprintf("leaf%d", i)
	}
	for n := range nodes {
		if random.IntN(12) > 0 {
			leaf := &switches[random.IntN(len(switches))]
			leaf.Nodes = append(leaf.Nodes, NodeIndex(n))
			attached = append(attached, NodeIndex(n))
		}
	}
	if random.IntN(5) > 0 {
		switches = append(switches, Switch{Name: "top", Level: 1, Nodes: attached})
	}
	return switches
}

var testExpressions = []Expression{
	{{Feature: "a"}},
	{{Feature: "b"}},
	{{Feature: "a"}, {Feature: "b"}, {Op: Or}},
	{{Feature: "a"}, {Feature: "c"}, {Op: Not}, {Op: And}},
}

func randomConstraint(random *rand.Rand) (c Constraint) {
	pick := func() Expression { return testExpressions[random.IntN(len(testExpressions))] }
	if random.IntN(4) == 0 {
		c.Each = pick()
	}
	switch random.IntN(6) {
	case 0:
		for range 1 + random.IntN(3) {
			c.Groups = append(c.Groups, Group{Count: 1 + random.Uint32N(2), Of: pick()})
		}
	case 1:
		c.OneOf = []Expression{pick(), pick(), pick()}
	}
	return c
}

func randomRequest(random *rand.Rand, nodes []Node) Request {
	maybe := func(one, of int, most uint32) uint32 {
		if random.IntN(of) >= one {
			return 0
		}
		return 1 + random.Uint32N(most)
	}
	r := Request{
		MinNodes: maybe(1, 2, 3), Tasks: maybe(1, 2, 12), TasksPerNode: maybe(1, 3, 4),
		CPUsPerTask: maybe(1, 2, 3), Exclusive: random.IntN(6) == 0, ExclusiveUser: random.IntN(6) == 0, User: 1 + random.Uint32N(2),
		MostNodes: random.IntN(4) == 0, EvenTasks: random.IntN(4) == 0, Contiguous: random.IntN(10) == 0,
	}
	switch {
	case r.Tasks > 0 && random.IntN(3) == 0:
		r.GPUsPerTask = 1 + random.Uint32N(2)
	case r.Tasks > 0 && random.IntN(3) == 0:
		r.TasksPerGPU = 1 + random.Uint32N(2)
	default:
		r.GPUsPerNode, r.GPUsPerJob = maybe(1, 3, 3), maybe(1, 4, 6)
	}
	if r.WantsGPUs() && random.IntN(3) == 0 {
		r.CPUsPerTask, r.CPUsPerGPU = 0, 1+random.Uint32N(2)
	}
	if random.IntN(3) == 0 {
		r.MaxNodes = r.MinNodes + random.Uint32N(3)
	}
	switch random.IntN(4) {
	case 0:
		r.MemoryPerNode = uint64(1+random.IntN(4)) << 30
	case 1:
		r.MemoryPerCPU = 1 << 29
	case 2:
		if r.WantsGPUs() {
			r.MemoryPerGPU = 1 << 30
		}
	}
	if random.IntN(3) == 0 {
		r.Model = "a100"
	}
	if random.IntN(5) == 0 {
		r.RequiredNodes = []string{nodes[random.IntN(len(nodes))].Name}
	}
	if random.IntN(5) == 0 {
		r.ExcludedNodes = []string{nodes[random.IntN(len(nodes))].Name}
	}
	if random.IntN(4) == 0 {
		r.Switches = 1 + random.Uint32N(2)
	}
	r.Constraint = randomConstraint(random)
	return r
}
