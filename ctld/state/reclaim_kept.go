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
	reclaimed []*Node             // ascending by name
	by        map[uint32][]string // by association: jobs that are charged alike are guests alike
}

func (t *tables) keptNodes() keptNodes {
	kept := keptNodes{tables: t, by: map[uint32][]string{}}
	t.reclaimed.Scan(func(name string, _ struct{}) bool {
		node, _ := t.nodes.Get(name)
		kept.reclaimed = append(kept.reclaimed, node)
		return true
	})
	return kept
}

// from are the reclaimed nodes on which a job is a guest, ascending by name.
func (k *keptNodes) from(job *Job) []string {
	if len(k.reclaimed) == 0 {
		return nil
	}
	names, known := k.by[job.Association]
	if known {
		return names
	}
	for _, node := range k.reclaimed {
		if k.tables.keptFrom(job, node) {
			names = append(names, node.Name)
		}
	}
	k.by[job.Association] = names
	return names
}

// tellKept says of a waiting job which of the nodes that it asks for are reclaimed.
// The plan does not: for the plan there is no such node.
func (t *tables) tellKept(message *pb.Job, job *Job) {
	if t.reclaimed.Len() == 0 {
		return
	}
	kept := t.keptNodes()
	names := slices.DeleteFunc(slices.Clone(kept.from(job)), func(name string) bool { return !t.inPartitions(job, name) })
	if len(names) == 0 {
		return
	}
	text := fmt.Sprintf("node %s is reclaimed by its owner", spec.FormatHostList(names))
	if len(names) > 1 {
		text = fmt.Sprintf("nodes %s are reclaimed by their owners", spec.FormatHostList(names))
	}
	switch message.Reason {
	case "BadConstraints", "PartitionConfig":
		message.Reason, message.ReasonDetail = "ReqNodeNotAvail", joinSentences(job.Detail, text)
	case "None", "Resources", "Priority", "ReqNodeNotAvail":
		message.ReasonDetail = joinSentences(message.ReasonDetail, text)
	}
}
