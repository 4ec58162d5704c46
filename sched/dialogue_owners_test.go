package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has the words of dialogues about nodes with owners:
//
//	owners      ACCOUNT nodes=A,B: with those of the accounts above it
//	running     … [owner=ACCOUNT] [unparkable] [starting]
//	jobs        … [--owner=ACCOUNT]
//	yields      ID: its nodes say that it is parked where it should be
//
// What a plan parks continues by itself, as what it suspends.

func (d *dialogue) owners(words []string) error {
	var nodes []place.NodeIndex
	for _, name := range list(options(words[1:])["nodes"]) {
		at, _ := d.find(name)
		nodes = append(nodes, place.NodeIndex(at))
	}
	d.owned = append(d.owned, words[0])
	d.snapshot.Owners = append(d.snapshot.Owners, nodes)
	return nil
}

func (d *dialogue) ownerNamed(account string) int32 {
	return int32(slices.Index(d.owned, account) + 1)
}

// ownedAs fills in whose a running job is, and whether it can be parked.
func (d *dialogue) ownedAs(r *Running, o map[string]string) {
	_, unparkable := o["unparkable"]
	r.Owner, r.Parks = d.ownerNamed(o["owner"]), !unparkable
}

func (s *Snapshot) ownerOf(id JobID) int32 {
	at := slices.IndexFunc(s.Waiting, func(job Job) bool { return job.ID == id })
	return s.Waiting[at].Owner
}

// parkFor has a job leave the nodes of an owner, of which their node has not heard yet.
func (s *Snapshot) parkFor(r *Running, owner int32) {
	r.Suspends, r.Suspended, r.Continues = false, true, true
	r.Parking = nodesOf(s.guestPart(r, owner))
}

func (d *dialogue) yields(words []string) error {
	r, err := d.runningJob(words[0])
	if err == nil {
		r.yield(&d.snapshot)
	}
	return err
}

// yield frees what a job that is being parked leaves.
func (r *Running) yield(s *Snapshot) {
	nodes := r.Parking
	part := r.parking()
	if len(r.Back) == 0 {
		r.stand(s.Nodes)
	}
	for i := range r.Placement.Allocs {
		if alloc := &r.Placement.Allocs[i]; slices.Contains(nodes, alloc.Node) {
			r.Back[i].Devices, alloc.Devices = alloc.Devices, nil
		}
	}
	r.Parked, r.Parking = nodes, nil
	place.Park(s.Nodes, part, stayingOf(s.Running))
}
