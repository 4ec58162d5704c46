package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// A job that could not be started on a node tries the others first. Where its
// user's number belongs to somebody else, or the owner does not admit its image, it never
// runs: it is held if no other node is left. Where its launch failed for another reason it comes back if no
// other node could take it, or after faultMemoryMS; maxBatchRequeue limits how
// often it is tried in all.

// maxAvoided is how many nodes a job avoids. A job is held if its user is
// somebody else on more nodes.
const maxAvoided = 64

// Avoided are nodes on which a job could not be started. A stored one is never
// changed.
type Avoided struct {
	Nodes []AvoidedNode `cbor:"1,keyasint"` // the last failure comes last; each once
}

// AvoidedNode is one of those nodes.
type AvoidedNode struct {
	Node string `cbor:"1,keyasint"`
	MS   int64  `cbor:"2,keyasint"` // when that was
	// OtherAccount: it never runs there. In the node's accounts the user or the group is
	// another one, or the node's owner does not admit its container image.
	OtherAccount bool `cbor:"3,keyasint,omitempty"`
}

// avoid notes, in a copy of a job, the node on which it could not be started.
func (j *Job) avoid(report *AllocReport, nowMS int64) {
	other := report.Cause == pb.EndCause_END_CAUSE_OTHER_ACCOUNT || report.Cause == pb.EndCause_END_CAUSE_NOT_ADMITTED
	if !other && report.Cause != pb.EndCause_END_CAUSE_NODE_FAULT {
		return
	}
	var nodes []AvoidedNode
	if j.Avoided != nil {
		nodes = slices.DeleteFunc(slices.Clone(j.Avoided.Nodes), func(a AvoidedNode) bool { return a.Node == report.Node })
	}
	if len(nodes) >= maxAvoided {
		oldest := max(slices.IndexFunc(nodes, func(a AvoidedNode) bool { return !a.OtherAccount }), 0)
		nodes = slices.Delete(nodes, oldest, oldest+1)
	}
	j.Avoided = &Avoided{Nodes: append(nodes, AvoidedNode{Node: report.Node, MS: nowMS, OtherAccount: other})}
}

// forgive forgets, in a copy of a job that runs, its failed launches.
func (j *Job) forgive() {
	if j.Avoided == nil {
		return
	}
	left := slices.DeleteFunc(slices.Clone(j.Avoided.Nodes), func(a AvoidedNode) bool { return !a.OtherAccount })
	j.Avoided = nil
	if len(left) > 0 {
		j.Avoided = &Avoided{Nodes: left}
	}
}

// isOtherOn reports whether the job never runs on a node.
func (j *Job) isOtherOn(node string) bool {
	return j.Avoided != nil && slices.ContainsFunc(j.Avoided.Nodes, func(a AvoidedNode) bool { return a.OtherAccount && a.Node == node })
}

// failedOn reports whether a launch of the job has failed on a node.
func (j *Job) failedOn(node string) bool {
	return slices.Contains(j.avoidedNodes(func(*AvoidedNode) bool { return true }), node)
}

// otherAccounts are the nodes on which the job never runs, ascending.
func (j *Job) otherAccounts() []string {
	return j.avoidedNodes(func(a *AvoidedNode) bool { return a.OtherAccount })
}

func (j *Job) avoidedNodes(which func(*AvoidedNode) bool) (names []string) {
	if j.Avoided == nil {
		return nil
	}
	for i := range j.Avoided.Nodes {
		if a := &j.Avoided.Nodes[i]; which(a) {
			names = append(names, a.Node)
		}
	}
	slices.Sort(names)
	return names
}

// avoiding are the nodes on which a waiting job is not placed now, by the clock of
// the log, ascending.
func (t *tables) avoiding(job *Job) []string {
	all := job.avoidedNodes(func(a *AvoidedNode) bool { return a.OtherAccount || t.timeMS < a.MS+faultMemoryMS })
	if never := job.otherAccounts(); len(never) < len(all) && !t.fitsWithout(job, all, false) {
		return never
	}
	return all
}

// fitsWithout reports whether some nodes other than those named could take a
// job if nothing else ran there: of those that take jobs now, or with anyhow,
// of all.
func (t *tables) fitsWithout(job *Job, without []string, anyhow bool) bool {
	request := job.Spec.shape.Request
	if images := job.Images(); len(images) > 0 {
		request = images[0].request(request)
	}
	request.ExcludedNodes = union(request.ExcludedNodes, without)
	request.Switches, request.Contiguous = 0, false // the scheduler decides about the network
	for _, name := range job.Spec.Partitions {
		partition, known := t.policy.Partition(name)
		if !known {
			continue
		}
		var nodes []place.Node
		var indices []place.NodeIndex
		for node := range t.Nodes() {
			if node.Inventory == nil || !partition.Has(node.Name) {
				continue
			}
			indices = append(indices, place.NodeIndex(len(nodes)))
			nodes = append(nodes, place.Idle(schedNode(node), anyhow))
		}
		if _, _, fits := place.Fit(nodes, indices, request); fits {
			return true
		}
	}
	return false
}

// union is what is in either of two ascending lists, ascending.
func union(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// holdIfNowhere holds a job that waits again if its user is somebody else on every
// node that could take it. Nodes that take no jobs now may do so later.
func (s *State) holdIfNowhere(next *Job) {
	never := next.otherAccounts()
	if next.Held != sched.NotHeld || len(never) == 0 {
		return
	}
	if len(never) < maxAvoided && s.fitsWithout(next, never, true) {
		return
	}
	next.Held = sched.LaunchFailed
	next.Detail = bounds.Clip(joinSentences(next.Detail, "no other node could take it"), bounds.MaxTextBytes)
}
