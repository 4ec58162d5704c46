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
//	resume      ID: an administrator says that it may continue
//
// What a plan suspends continues by itself, and runs when the plan says so.

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
	place.ReleaseCPUs(nodes, r.Placement.Allocs)
	r.Placement.Allocs = slices.Clone(r.Placement.Allocs)
	for i := range r.Placement.Allocs {
		alloc := &r.Placement.Allocs[i]
		r.Back = append(r.Back, place.Alloc{Node: alloc.Node, CPUs: alloc.CPUs})
		alloc.CPUs = place.CPUSet{}
	}
}

// resume gives it its CPUs back.
func (r *Running) resume(nodes []place.Node) {
	for _, back := range r.Back {
		for i := range r.Placement.Allocs {
			if alloc := &r.Placement.Allocs[i]; alloc.Node == back.Node {
				alloc.CPUs = back.CPUs
			}
		}
	}
	place.TakeCPUs(nodes, r.Back)
	r.Suspends, r.Suspended, r.Continues, r.Back = true, false, false, nil
}

// continued writes down who continues, and has them run.
func (d *dialogue) continued(ids []JobID) string {
	var out strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&out, "continue %d\n", id)
		if r, err := d.runningJob(fmt.Sprint(id)); err == nil {
			r.resume(d.snapshot.Nodes)
		}
	}
	return out.String()
}
