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
//	parked      ID: likewise, and its devices too
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

func (d *dialogue) parked(words []string) error {
	r, err := d.runningJob(words[0])
	if err == nil {
		r.stand(d.snapshot.Nodes)
		r.park(d.snapshot.Nodes)
	}
	return err
}

// park frees the devices of a job that stands still.
func (r *Running) park(nodes []place.Node) {
	for i := range r.Placement.Allocs {
		alloc, n := &r.Placement.Allocs[i], &nodes[r.Placement.Allocs[i].Node]
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range alloc.Devices {
			n.Devices[grant.Device].FreeShares += grant.Shares
		}
		n.ParkedMemory += alloc.MemoryBytes
		n.Busy, n.Exclusive, n.Users = false, false, nil
		r.Back[i].Devices, alloc.Devices = alloc.Devices, nil
		r.Parked = append(r.Parked, alloc.Node)
	}
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
				alloc.CPUs, alloc.Devices = back.CPUs, append(alloc.Devices, back.Devices...)
			}
		}
	}
	place.TakeBack(nodes, r.Back)
	for i := range r.Placement.Allocs {
		alloc := &r.Placement.Allocs[i]
		if n := &nodes[alloc.Node]; slices.Contains(r.Parked, alloc.Node) {
			n.ParkedMemory -= alloc.MemoryBytes
			n.Busy, n.Exclusive, n.UserOnly = true, n.Exclusive || r.Exclusive, n.UserOnly || r.Placement.UserOnly
			if at, there := slices.BinarySearch(n.Users, r.Placement.User); !there {
				n.Users = slices.Insert(slices.Clone(n.Users), at, r.Placement.User)
			}
		}
	}
	r.Suspends, r.Suspended, r.Continues, r.Back, r.Parked, r.Parking = true, false, false, nil, nil, nil
}

// continued writes down who continues, and has them run.
func (d *dialogue) continued(ids []JobID) string {
	var out strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&out, "continue %d\n", id)
		if r, err := d.runningJob(fmt.Sprint(id)); err == nil {
			r.resume(d.snapshot.Nodes)
			r.ContinuedMS = d.snapshot.NowMS
		}
	}
	return out.String()
}
