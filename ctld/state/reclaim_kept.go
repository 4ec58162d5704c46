package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file keeps guests from the nodes that are reclaimed.

// reclaimRule keeps jobs from the nodes that are reclaimed, or will be at the hours of
// their owners.
func (t *tables) reclaimRule(nowMS int64, told NodeReports) nodeRule {
	if t.reclaimed.Len() == 0 && t.lending.Len() == 0 {
		return nil
	}
	// Jobs that are charged alike are guests alike.
	return newNodeRule(func(job *Job) uint32 { return job.Association }, func(job *Job) (out nodesFor) {
		whole, some := t.guestOn(job)
		for _, node := range whole {
			out.closedUntil(node.Name, node.Reclaim.untilMS(nowMS), sched.ClosedByOwner)
		}
		out.guest = some
		t.lending.Scan(func(name string, _ struct{}) bool {
			node, _ := t.nodes.Get(name)
			if told.Unlent == nil || t.OwnersJob(job, name) {
				return true
			}
			for _, span := range told.Unlent(node) {
				out.close(name, span.FromMS, span.ToMS, true, sched.ClosedByOwner)
			}
			return true
		})
		return out
	})
}

// untilMS is until when guests are kept out; 0 = nobody knows. What was reclaimed on the
// node for a time ends when the node says so, and that may have no session by then.
func (r *Reclaim) untilMS(nowMS int64) int64 {
	if r.UntilMS <= nowMS {
		return 0
	}
	return r.UntilMS
}

// guestOn is the reclaimed nodes on which a job is a guest, ascending by name: those that
// it gets nothing of, and the names of those that it does not get some devices of.
func (t *tables) guestOn(job *Job) (whole []*Node, some []string) {
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		node, _ := t.nodes.Get(name)
		switch {
		case t.OwnersJob(job, name):
		case node.keepsWhole():
			whole = append(whole, node)
		default:
			some = append(some, name)
		}
		return true
	})
	return whole, some
}

// tellKept says of a waiting job which of the nodes that it asks for are reclaimed, and
// of which GPUs are if it asks for some. The plan does not: for the plan there is no such
// node, or GPU.
func (t *tables) tellKept(message *pb.Job, job *Job) {
	if t.reclaimed.Len() == 0 {
		return
	}
	all, some := t.guestOn(job)
	outside := func(name string) bool { return !t.inPartitions(job, name) }
	text := ""
	if whole := slices.DeleteFunc(names(all), outside); len(whole) > 0 {
		text = reclaimedNodes("", whole)
	}
	if job.Spec.shape.Request.WantsGPUs() {
		if some = slices.DeleteFunc(some, outside); len(some) > 0 {
			text = joinSentences(text, reclaimedNodes("GPUs of ", some))
		}
	}
	if text == "" {
		return
	}
	addKept(message, job, text)
}

// addKept adds why a waiting job is kept from nodes to what a plan says.
func addKept(message *pb.Job, job *Job, text string) {
	switch message.Reason {
	case "BadConstraints", "PartitionConfig":
		message.Reason, message.ReasonDetail = "ReqNodeNotAvail", joinSentences(job.Detail, text)
	case "None", "Resources", "Priority", "ReqNodeNotAvail":
		message.ReasonDetail = joinSentences(message.ReasonDetail, text)
	}
}

// reclaimedNodes says that nodes, or things of them, are reclaimed.
func reclaimedNodes(what string, names []string) string {
	switch {
	case len(names) > 1:
		return fmt.Sprintf("%snodes %s are reclaimed by their owners", what, spec.FormatHostList(names))
	case what != "":
		return fmt.Sprintf("%snode %s are reclaimed by its owner", what, spec.FormatHostList(names))
	}
	return fmt.Sprintf("node %s is reclaimed by its owner", spec.FormatHostList(names))
}
