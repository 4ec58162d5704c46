package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file keeps guests from the nodes that are reclaimed.

// keptNodes finds the reclaimed nodes on which a job is a guest.
type keptNodes struct {
	tables    *tables
	reclaimed []*Node            // ascending by name
	by        map[uint32]guestOn // by association: jobs that are charged alike are guests alike
}

// guestOn is the reclaimed nodes on which a job is a guest, ascending by name: those that
// it gets nothing of, and those that it does not get some devices of.
type guestOn struct{ whole, some []string }

func (t *tables) keptNodes() keptNodes {
	kept := keptNodes{tables: t, by: map[uint32]guestOn{}}
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		node, _ := t.nodes.Get(name)
		kept.reclaimed = append(kept.reclaimed, node)
		return true
	})
	return kept
}

// from is where a waiting job is a guest.
func (k *keptNodes) from(job *Job) guestOn {
	if len(k.reclaimed) == 0 {
		return guestOn{}
	}
	guest, known := k.by[job.Association]
	if known {
		return guest
	}
	for _, node := range k.reclaimed {
		switch {
		case k.tables.OwnersJob(job, node.Name):
		case node.keepsWhole():
			guest.whole = append(guest.whole, node.Name)
		default:
			guest.some = append(guest.some, node.Name)
		}
	}
	k.by[job.Association] = guest
	return guest
}

// tellKept says of a waiting job which of the nodes that it asks for are reclaimed, and
// of which GPUs are if it asks for some. The plan does not: for the plan there is no such
// node, or GPU.
func (t *tables) tellKept(message *pb.Job, job *Job) {
	if t.reclaimed.Len() == 0 {
		return
	}
	kept := t.keptNodes()
	guest := kept.from(job)
	outside := func(name string) bool { return !t.inPartitions(job, name) }
	text := ""
	if whole := slices.DeleteFunc(slices.Clone(guest.whole), outside); len(whole) > 0 {
		text = reclaimedNodes("", whole)
	}
	if job.Spec.shape.Request.WantsGPUs() {
		if some := slices.DeleteFunc(slices.Clone(guest.some), outside); len(some) > 0 {
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
