package sched

import (
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/priority"
)

// This file has the factors of a job's priority, one function each. A factor
// whose whole is nothing is 0.

func (p *priorities) association(i int32) priority.Fraction {
	if i < 0 || int(i) >= len(p.Associations) {
		return priority.Fraction{}
	}
	return priority.Normalized(p.Associations[i].Priority, p.highest.association)
}

func (p *priorities) fairShare(i int32) priority.Fraction {
	if i < 0 || int(i) >= len(p.standings) {
		return priority.Fraction{}
	}
	return priority.Rank(p.standings[i].Rank, p.users)
}

func (p *priorities) qosFactor(i int32) priority.Fraction {
	if i < 0 || int(i) >= len(p.QOS) {
		return priority.Fraction{}
	}
	return priority.Normalized(p.QOS[i].Priority, p.highest.qos)
}

func (p *priorities) partitionFactor(partition int) priority.Fraction {
	if partition < 0 {
		return priority.Fraction{}
	}
	return priority.Normalized(p.Partitions[partition].PriorityJobFactor, p.highest.partition)
}

func (p *priorities) jobSize(shape *Shape, partition int) priority.Fraction {
	if p.Priority.WeightJobSize == 0 {
		return priority.Fraction{}
	}
	nodes, cpus := askedNodesCPUs(&shape.Request, &p.all)
	minutes := shape.TimeLimitS / 60
	if shape.TimeLimitS == Unlimited && partition >= 0 {
		minutes = p.Partitions[partition].MaxTimeS / 60
	}
	size := priority.Size{
		Nodes: uint64(nodes), CPUs: uint64(cpus), ClusterNodes: uint64(p.all.nodes), ClusterCPUs: uint64(p.all.cpus), TimeLimitMinutes: uint64(minutes),
	}
	switch {
	case p.Priority.SmallRelativeToTime:
		return size.RelativeToTime()
	case p.Priority.FavorSmall:
		return size.Small()
	}
	return size.Large()
}

// licensed is the factor of a license: relative to all that the cluster has.
func (p *priorities) licensed(job *Job, kind *tresKind) priority.Fraction {
	for _, asked := range job.Licenses {
		if asked.License == kind.license {
			return priority.Requested(int64(asked.Count), int64(p.Licenses[kind.license].Total))
		}
	}
	return priority.Fraction{}
}

// requested is the factor of a TRES that nodes have: relative to all that the
// partition has.
func (p *priorities) requested(shape *Shape, partition int, kind *tresKind) priority.Fraction {
	if partition < 0 {
		return priority.Fraction{}
	}
	r, has := &shape.Request, &p.partitions[partition]
	nodes, cpus := askedNodesCPUs(r, has)
	switch {
	case kind.name == TRESNode:
		return priority.Requested(nodes, has.nodes)
	case kind.name == TRESCPU:
		return priority.Requested(cpus, has.cpus)
	case kind.name == TRESMemory:
		return priority.Requested(askedMemory(r, nodes, cpus, has), has.memory)
	case kind.name == TRESGPU:
		return priority.Requested(askedGPUs(r, nodes, has.gpus, has.nodes), has.gpus)
	case kind.model != "" && kind.model == r.Model:
		return priority.Requested(askedGPUs(r, nodes, has.models[kind.model], has.nodes), has.models[kind.model])
	}
	return priority.Fraction{}
}

// askedNodesCPUs is the least that a request takes. Whole nodes count what
// nodes have on average.
func askedNodesCPUs(r *place.Request, has *sums) (nodes, cpus int64) {
	low, _ := r.NodeBounds()
	nodes = int64(low)
	tasks := int64(r.Tasks)
	if tasks == 0 {
		tasks = nodes * int64(max(r.TasksPerNode, 1))
	}
	cpus = tasks * int64(max(r.CPUsPerTask, 1))
	if r.Exclusive {
		cpus = max(cpus, share(has.cpus, nodes, has.nodes))
	}
	return nodes, cpus
}

// askedMemory is in bytes. Without an amount a job gets all memory of its
// nodes.
func askedMemory(r *place.Request, nodes, cpus int64, has *sums) int64 {
	switch {
	case r.MemoryPerNode > 0:
		return times(nodes, r.MemoryPerNode)
	case r.MemoryPerCPU > 0:
		return times(cpus, r.MemoryPerCPU)
	}
	return share(has.memory, nodes, has.nodes)
}

// askedGPUs counts devices; alone on its nodes a job has all of them.
func askedGPUs(r *place.Request, nodes, gpus, of int64) int64 {
	asked := max(nodes*int64(r.GPUsPerNode), int64(r.GPUsPerJob))
	if r.Exclusive {
		asked = max(asked, share(gpus, nodes, of))
	}
	return asked
}

// share is the share of a number of nodes in what all nodes have.
func share(amount, nodes, all int64) int64 {
	if all <= 0 {
		return 0
	}
	nodes = min(nodes, all)
	return amount/all*nodes + amount%all*nodes/all
}

// times multiplies without overflow.
func times(n int64, each uint64) int64 {
	const most = 1 << 62
	if n > 0 && each > most/uint64(n) {
		return most
	}
	return n * int64(each)
}
