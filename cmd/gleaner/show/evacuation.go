package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// EvacuationJSON is how far a node is from being empty.
type EvacuationJSON struct {
	SinceMS int64            `json:"since_ms"`
	UntilMS int64            `json:"until_ms,omitempty"`
	Jobs    []LeavingJobJSON `json:"jobs"`
}

// LeavingJobJSON is a job that is still there.
type LeavingJobJSON struct {
	Job   uint32 `json:"job"`
	State string `json:"state"`
}

// EvacuationJSONOf makes it of a node's message; nil = the node is not evacuated.
func EvacuationJSONOf(e *pb.Evacuation) *EvacuationJSON {
	if e == nil {
		return nil
	}
	out := &EvacuationJSON{SinceMS: e.AtMs, UntilMS: e.DeadlineMs, Jobs: []LeavingJobJSON{}}
	for _, job := range e.Jobs {
		out.Jobs = append(out.Jobs, LeavingJobJSON{Job: job.Job, State: job.State})
	}
	return out
}

// nodeEvacuation adds the lines about a node whose jobs leave it.
func nodeEvacuation(r *Record, node *pb.Node, view *View) {
	e := node.Evacuation
	if e == nil {
		return
	}
	r.Line(Item("EvacuatedSince", view.Stamp(e.AtMs, "Unknown")), Item("EvacuateBy", view.Stamp(e.DeadlineMs, "None")), Item("JobsLeft", Digits(uint32(len(e.Jobs)))))
	for _, job := range e.Jobs {
		r.Line(Item("LeavingJob", Digits(job.Job)), Item("LeavingState", job.State))
	}
}
