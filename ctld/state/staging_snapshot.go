package state

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file gives the scheduler the runs that only copy files: how little they need, and
// where they may be.

// stagingMemory is what a run has that copies files.
const stagingMemory = 256 << 20

// stagingRequest is what a run has that copies the files of a job on a number of nodes.
func stagingRequest(r *place.Request, nodes uint32) place.Request {
	return place.Request{
		MinNodes: nodes, MaxNodes: nodes, Tasks: nodes, TasksPerNode: 1, CPUsPerTask: 1, MemoryPerNode: stagingMemory, TmpPerNode: r.TmpPerNode,
		RequiredNodes: r.RequiredNodes, ExcludedNodes: r.ExcludedNodes, AmongNodes: r.AmongNodes, GuestOn: r.GuestOn, Constraint: r.Constraint,
		ExclusiveUser: r.ExclusiveUser, User: r.User,
	}
}

// staging says, for a snapshot, where the stages of jobs may be.
type staging struct {
	view *View
	kept map[string]uint64   // bytes of the disks that nodes keep for jobs that wait
	away map[*Shape][]string // where files do not come of jobs of a shape
}

// keeps counts the disks that are kept for a waiting job.
func (a *staging) keeps(job *Job) {
	for _, node := range job.Staged.waitsFor() {
		if a.kept == nil {
			a.kept = map[string]uint64{}
		}
		a.kept[node] += job.Spec.TmpPerNode
	}
}

// stagedAt are the nodes among which the next run of a waiting job has to be, and on how
// many of them it copies files; nil and 0 = it is like that of any job.
func (a *staging) stagedAt(job *Job) (among []string, copies uint32) {
	switch among = job.Staged.waitsFor(); {
	case !job.stages():
		return among, 0
	case job.Staged.Stage == StageIn:
		return nil, job.Spec.MinNodes
	}
	here := slices.DeleteFunc(slices.Clone(among), func(name string) bool {
		node, known := a.view.nodes.Get(name)
		return !known || !node.Available()
	})
	if len(here) > 0 { // what others have goes when they are back
		among = here
	}
	return among, uint32(len(among))
}

// gangNodes are the nodes, ascending, to which the files of a job on several nodes come, by
// the shape in which it waits and what its own run asks for: those that can run it together
// soonest. It is the nodes that are free for it now, or else of those that come free first
// as many as it takes. Empty = there are none.
func (a *staging) gangNodes(partitions []string, request place.Request) []string {
	request.Switches, request.Contiguous = 0, false
	for _, name := range partitions {
		partition, known := a.view.policy.Partition(name)
		if !known {
			continue
		}
		nodes := a.candidates(partition, &request)
		if names := fitNames(nodes, request, false); names != nil {
			return names
		}
		// The fewest of the first that will do.
		most := len(nodes)
		few := sort.Search(most, func(few int) bool { return fitNames(nodes[:few], request, true) != nil })
		if few < most || most > 0 && fitNames(nodes, request, true) != nil {
			return fitNames(nodes[:few], request, true)
		}
	}
	return []string{}
}

// stagingNode is a node to which files may come.
type stagingNode struct {
	node   place.Node
	freeMS int64 // when the last job on it is over at the latest; 0 = it has none
}

// candidates are the nodes of a partition to which files may come of a job that asks for
// this, those first that come free first.
func (a *staging) candidates(partition *policy.Partition, request *place.Request) []stagingNode {
	var nodes []stagingNode
	for node := range a.view.Nodes() {
		if !partition.Has(node.Name) || !node.Available() || a.isFull(request, node) {
			continue
		}
		one := stagingNode{node: schedNode(node)}
		for job := range a.view.JobsOn(node.Name) {
			one.freeMS = max(one.freeMS, job.Run.StartMS+int64(job.TimeLimitS())*1000)
		}
		nodes = append(nodes, one)
	}
	slices.SortStableFunc(nodes, func(a, b stagingNode) int { return cmp.Compare(a.freeMS, b.freeMS) })
	return nodes
}

// fitNames are the nodes, ascending, on which a request fits, now or when they are idle; nil
// = it does not.
func fitNames(from []stagingNode, request place.Request, idle bool) []string {
	nodes, all := make([]place.Node, len(from)), make([]place.NodeIndex, len(from))
	for i := range from {
		nodes[i], all[i] = from[i].node, place.NodeIndex(i)
		if idle {
			nodes[i] = place.Idle(nodes[i], false)
		}
	}
	found, fits := place.Find(nodes, all, request)
	if !fits {
		return nil
	}
	names := []string{}
	for _, alloc := range found.Allocs {
		names = append(names, nodes[alloc.Node].Name)
	}
	slices.Sort(names)
	return names
}

// stagedAway are the nodes, ascending, to which the files of a waiting job do not come: they
// could not run the job, if nothing else ran there, or the files of jobs that wait take half
// of the disk.
func (a *staging) stagedAway(job *Job) []string {
	if job.Staged.Stage != StageIn || job.Spec.MinNodes > 1 {
		return nil // see gangNodes
	}
	shape := job.Spec.shape
	names, known := a.away[shape]
	if known {
		return names
	}
	for node := range a.view.Nodes() {
		if !a.canRun(shape, node) {
			names = append(names, node.Name)
		}
	}
	if a.away == nil {
		a.away = map[*Shape][]string{}
	}
	a.away[shape] = names
	return names
}

func (a *staging) canRun(shape *Shape, node *Node) bool {
	if a.isFull(&shape.Request, node) {
		return false
	}
	request := shape.Request
	request.Switches, request.Contiguous = 0, false
	_, _, fits := place.Fit([]place.Node{place.Idle(schedNode(node), false)}, []place.NodeIndex{0}, request)
	return fits
}

// isFull reports whether the files of jobs that wait take half of a node's disk, with those
// of a job that asks for this.
func (a *staging) isFull(request *place.Request, node *Node) bool {
	kept := a.kept[node.Name]
	return node.Inventory == nil || kept > 0 && (kept+request.TmpPerNode)*2 > node.Inventory.TmpBytes
}
