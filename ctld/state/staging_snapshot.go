package state

import (
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file gives the scheduler the runs that only copy files: how little they need, and
// where they may be.

// stagingMemory is what a run has that copies files.
const stagingMemory = 256 << 20

// stagingRequest is what a run has that copies the files of a job.
func stagingRequest(r *place.Request) place.Request {
	return place.Request{
		MinNodes: 1, MaxNodes: 1, Tasks: 1, CPUsPerTask: 1, MemoryPerNode: stagingMemory, TmpPerNode: r.TmpPerNode,
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

// keeps counts the disk that is kept for a waiting job.
func (a *staging) keeps(job *Job) {
	if node := job.Staged.waitsFor(); node != "" {
		if a.kept == nil {
			a.kept = map[string]uint64{}
		}
		a.kept[node] += job.Spec.TmpPerNode
	}
}

// stagedAway are the nodes, ascending, to which the files of a waiting job do not come: they
// could not run the job, if nothing else ran there, or the files of jobs that wait take half
// of the disk.
func (a *staging) stagedAway(job *Job) []string {
	if job.Staged.Stage != StageIn {
		return nil
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
	kept := a.kept[node.Name]
	if node.Inventory == nil || kept > 0 && (kept+shape.Request.TmpPerNode)*2 > node.Inventory.TmpBytes {
		return false
	}
	request := shape.Request
	request.Switches, request.Contiguous = 0, false
	_, _, fits := place.Fit([]place.Node{place.Idle(schedNode(node), false)}, []place.NodeIndex{0}, request)
	return fits
}
