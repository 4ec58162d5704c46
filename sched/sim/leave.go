package sim

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has guests leave the nodes of an owner, as package sched decides it for jobs
// of the owner, or because the owner takes a node back. A guest is killed and waits
// again; or it is parked: frozen, with its CPUs and devices free, until it continues
// where it is, or is packed: saved, so that it waits again and resumes from its image.

// Guests says what becomes of guests that have to leave.
type Guests uint8

// Ways to lend. The zero value is what the controllers do.
const (
	GuestsPark Guests = iota // parked; packed only where the owner took the node back
	GuestsPack               // parked, and packed wherever they stay so
	GuestsKill               // killed; what they have done is lost
	GuestsNone               // there are none: jobs run only on nodes of their own account
)

// Lending is what becomes of guests, and what it costs. Times are seconds.
type Lending struct {
	Guests     Guests
	NoticeS    int64 // how long guests have to leave
	ParkS      int64 // to park one, GPU memory included
	ContinueS  int64 // until a parked one runs again
	PackAfterS int64 // how long one is parked before it is packed
	SaveS      int64 // to save a parked one
	RestoreS   int64 // until one runs again from its image
	KillS      int64 // until one that is killed is gone
}

// Lent is what lending cost.
type Lent struct {
	Leaves   int   // how often a guest had to leave
	InTime   int   // and was gone within the notice
	LongestS int64 // what the slowest took
	Parks    int
	Packs    int
	Kills    int
	LostPS   int64 // processor-seconds of work that was lost
}

// preempt does what the plan says of a guest.
func (r *replay) preempt(p *sched.Preemption) {
	victim := int32(p.Victim) - 1
	if p.Fills {
		r.save(victim, p.GoneByMS)
		return
	}
	if p.Mode == sched.PreemptPark {
		r.stop(victim, r.guestNodes(victim, r.owner(int32(p.For)-1)))
	} else {
		r.kill(victim)
	}
}

// stop stops a job, which is then parked on some of its nodes.
func (r *replay) stop(job int32, nodes []place.NodeIndex) {
	of := r.runs[job]
	if of.ending {
		return
	}
	if !of.stopped {
		of.workedS = of.doneS(r.nowS)
		of.stopped = true
		r.waitsNow(job)
		r.owners.stopped++
		r.result.Jobs[job].Stops++
		r.result.Lent.Parks++
	}
	for _, node := range nodes {
		if !slices.Contains(of.parked, node) && !slices.Contains(of.parking, node) {
			of.parking = append(of.parking, node)
		}
	}
	slices.Sort(of.parking)
	if len(of.parking) > 0 {
		of.askedS = r.nowS
		r.await(job, parked, r.nowS+r.policy.Lending.ParkS)
	}
}

// park is when a job stands still on all its nodes, and its devices are free where it
// had to leave them.
func (r *replay) park(job int32) {
	of, nodes := r.runs[job], r.snapshot.Nodes
	if of.rest == nil {
		place.ReleaseCPUs(nodes, of.placement.Allocs)
		of.rest = slices.Clone(of.placement.Allocs)
		for i := range of.rest {
			of.back = append(of.back, place.Alloc{Node: of.rest[i].Node, CPUs: of.rest[i].CPUs})
			of.rest[i].CPUs = place.CPUSet{}
		}
	}
	var part place.Placement
	for i := range of.rest {
		if alloc := &of.rest[i]; slices.Contains(of.parking, alloc.Node) {
			part.Allocs = append(part.Allocs, *alloc)
			of.back[i].Devices, alloc.Devices = alloc.Devices, nil
		}
	}
	of.parked = append(of.parked, of.parking...)
	slices.Sort(of.parked)
	of.parking = nil
	place.Park(nodes, part, r.staying)
	r.left(of)
	if r.packs(of) {
		r.await(job, packed, r.nowS+r.policy.Lending.PackAfterS+r.policy.Lending.SaveS)
	}
}

// packs reports whether a parked job is packed if it stays parked.
func (r *replay) packs(of *run) bool {
	return r.policy.Lending.Guests == GuestsPack || slices.ContainsFunc(of.parked, r.isReclaimed)
}

// left notes how long a guest took to leave.
func (r *replay) left(of *run) {
	lent, tookS := &r.result.Lent, r.nowS-of.askedS
	lent.Leaves++
	lent.LongestS = max(lent.LongestS, tookS)
	if tookS <= r.policy.Lending.NoticeS {
		lent.InTime++
	}
}

// resume has a stopped job run again where it is.
func (r *replay) resume(job int32) {
	of := r.runs[job]
	for i := range of.back {
		back := place.Alloc{Node: of.back[i].Node, CPUs: of.back[i].CPUs, Devices: of.back[i].Devices, MemoryBytes: of.rest[i].MemoryBytes}
		if slices.Contains(of.parked, back.Node) {
			place.Unpark(r.snapshot.Nodes, place.Placement{Allocs: []place.Alloc{back}}, false)
		} else {
			place.TakeCPUs(r.snapshot.Nodes, []place.Alloc{back})
		}
	}
	of.stopped, of.rest, of.back, of.parking, of.parked = false, nil, nil, nil, nil
	r.owners.stopped--
	r.runsNow(job)
	of.sinceS = r.nowS + r.policy.Lending.ContinueS
	r.awaitEnd(job)
}

// pack ends the run of a parked job, which waits again with its image.
func (r *replay) pack(job int32) {
	if of := r.runs[job]; r.packs(of) {
		r.owners.savedS[job] += of.workedS
		r.result.Lent.Packs++
		r.waitAgain(job)
	}
}

// kill ends a job, which has lost what it did since its start or its image.
func (r *replay) kill(job int32) {
	of := r.runs[job]
	if of.ending {
		return
	}
	o := &r.result.Jobs[job]
	of.workedS, of.askedS = of.doneS(r.nowS), r.nowS
	of.ending = true
	r.waitsNow(job)
	o.LostS += of.workedS
	o.Stops++
	r.result.Lent.Kills++
	r.result.Lent.LostPS += of.workedS * int64(o.Processors)
	r.await(job, killed, r.nowS+r.policy.Lending.KillS)
}

// requeue is when a killed job is gone.
func (r *replay) requeue(job int32) {
	r.left(r.runs[job])
	r.waitAgain(job)
}

func (r *replay) waitAgain(job int32) {
	r.release(job)
	at, _ := slices.BinarySearch(r.waiting, job)
	r.waiting = slices.Insert(r.waiting, at, job)
}
