package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has the words of dialogues about suspended jobs:
//
//	suspend     ID: an administrator does
//	stands      ID: its nodes say that it stands still, and its CPUs are free
//	resume      ID: an administrator says that it may go on
//
// What a plan suspends goes on by itself, and runs when the plan says so.

func (d *dialogue) runningJob(word string) (*Running, error) {
	id := JobID(number(word, 0))
	at := slices.IndexFunc(d.snapshot.Running, func(r Running) bool { return r.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("job %d does not run", id)
	}
	return &d.snapshot.Running[at], nil
}

func (d *dialogue) suspend(words []string) error {
	r, err := d.runningJob(words[0])
	if err == nil {
		r.Suspends, r.Suspended = false, true
	}
	return err
}

func (d *dialogue) resume(words []string) error {
	r, err := d.runningJob(words[0])
	if err == nil {
		r.Continues = true
	}
	return err
}

func (d *dialogue) stands(words []string) error {
	r, err := d.runningJob(words[0])
	if err == nil {
		r.stand(d.snapshot.Nodes)
	}
	return err
}

// stand frees the CPUs of a suspended job.
func (r *Running) stand(nodes []place.Node) {
	place.ReleaseCPUs(nodes, r.Placement.Parts)
	r.Placement.Parts = slices.Clone(r.Placement.Parts)
	for i := range r.Placement.Parts {
		part := &r.Placement.Parts[i]
		r.Back = append(r.Back, place.Part{Node: part.Node, CPUs: part.CPUs})
		part.CPUs = place.CPUSet{}
	}
}

// goOn gives it its CPUs back.
func (r *Running) goOn(nodes []place.Node) {
	for _, back := range r.Back {
		for i := range r.Placement.Parts {
			if part := &r.Placement.Parts[i]; part.Node == back.Node {
				part.CPUs = back.CPUs
			}
		}
	}
	place.TakeCPUs(nodes, r.Back)
	r.Suspends, r.Suspended, r.Continues, r.Back = true, false, false, nil
}

// continued writes down who goes on, and has them run.
func (d *dialogue) continued(ids []JobID) string {
	var out strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&out, "continue %d\n", id)
		if r, err := d.runningJob(fmt.Sprint(id)); err == nil {
			r.goOn(d.snapshot.Nodes)
		}
	}
	return out.String()
}
