package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// room is the nodes as they will be.
type room struct {
	rules   *preemptRules
	nodes   []place.Node // with what is free once all that leave are gone, less what was given away
	on      occupants
	leaving []bool // by position in Running: it makes room, since before or chosen in this pass
	gone    absent // likewise: where it will not be any more
	kept    []bool // by node: something on it is promised
	// By node: 1 + the shape of the jobs that were promised something in the
	// region that it is in, and that have a promise on the node itself.
	region, promised []int32
	closings         int // of the pass, after the last promise
	steps            int // spent on choosing
	// By node: what is planned there, as positions in the pass's plans, and how many of
	// these were looked at.
	plans      [][]int32
	notedPlans int
	leaveMS    []int64 // by position in Running: how long it takes those that were chosen in this pass
	licenses   []promisedLicenses
	withheld   map[place.NodeIndex][]place.Alloc // what suspended jobs get back, also of what others have now

	// The search that was made last, the job that it was for, and the nodes
	// that something was given away or released on since.
	last          *victimSearch
	lastKind      int32
	lastPartition int
	lastQOS       int32
	lastOwn       bool
	touched       []place.NodeIndex
}

// occupants are the jobs on each node.
type occupants [][]occupant

type occupant struct {
	running int // position in Running; -1 = it was started or promised something in this pass
	place.Stay
}

func (o occupants) add(running int, placement place.Placement, exclusive bool) {
	for i := range placement.Allocs {
		node := placement.Allocs[i].Node
		o[node] = append(o[node], occupant{running, place.Stay{User: placement.User, UserOnly: placement.UserOnly, Exclusive: exclusive}})
	}
}

// without lists the jobs that stay on a node when others are gone.
func (o occupants) without(gone *absent) func(place.NodeIndex) []place.Stay {
	return func(node place.NodeIndex) []place.Stay {
		var staying []place.Stay
		for _, job := range o[node] {
			if !gone.from(job.running, node) {
				staying = append(staying, job.Stay)
			}
		}
		return staying
	}
}

// shares is the part of a job's placement on nodes that it shares with others, or
// with nobody.
func (r *Running) shares() place.Placement {
	if len(r.Parked) == 0 {
		return r.Placement
	}
	placement := r.Placement
	placement.Allocs = slices.DeleteFunc(slices.Clone(placement.Allocs), func(alloc place.Alloc) bool {
		_, parked := slices.BinarySearch(r.Parked, alloc.Node)
		return parked
	})
	return placement
}

func newRoom(p *pass) *room {
	r := &room{
		rules:    newPreemptRules(p.Snapshot),
		nodes:    slices.Clone(p.nodes),
		on:       make(occupants, len(p.nodes)),
		leaving:  make([]bool, len(p.Running)),
		leaveMS:  make([]int64, len(p.Running)),
		gone:     absent{gone: make([]bool, len(p.Running))},
		kept:     make([]bool, len(p.nodes)),
		region:   make([]int32, len(p.nodes)),
		promised: make([]int32, len(p.nodes)),
	}
	for i := range p.Running {
		r.on.add(i, p.Running[i].shares(), p.Running[i].Exclusive)
	}
	for i := range p.starts {
		placement := p.starts[i].Placement
		r.on.add(-1, placement, p.nodes[placement.Allocs[0].Node].Exclusive) // whose but its own
	}
	for i := range p.Running {
		running := &p.Running[i]
		stops := running.Suspended && (running.holdsCPUs() || len(running.Parking) > 0)
		if by := running.LeavesByMS; !running.Ending && !stops || by != 0 && by <= p.NowMS {
			continue // it stays, or may stay forever
		} else if by != 0 {
			p.nextMS = sooner(p.nextMS, by)
		}
		switch {
		case !stops:
			r.leave(p.Snapshot, i, PreemptCancel, running.Placement)
		case len(running.Parking) > 0:
			r.leave(p.Snapshot, i, PreemptPark, running.parking())
		default:
			r.leave(p.Snapshot, i, PreemptSuspend, running.Placement)
		}
	}
	r.withhold(p.withheld)
	return r
}

// leave removes a running job, or if it is suspended, frees its CPUs, and if it is
// parked its devices too on the nodes of a part of its placement.
func (r *room) leave(s *Snapshot, at int, mode PreemptMode, part place.Placement) {
	r.leaving[at] = true
	r.touch(s.Running[at].Placement)
	switch mode {
	case PreemptSuspend:
		place.ReleaseCPUs(r.nodes, s.Running[at].Placement.Allocs)
	case PreemptPark: // it stands still on its other nodes too
		place.ReleaseCPUs(r.nodes, s.Running[at].Placement.Allocs)
		r.gone.park(at, nodesOf(part))
		place.Park(r.nodes, part, r.on.without(&r.gone))
	default:
		r.gone.gone[at] = true
		place.Release(r.nodes, s.Running[at].Placement, r.on.without(&r.gone))
	}
}

// withhold keeps from all jobs the CPUs and devices that suspended jobs get back: what is
// free of them now, and what comes free when others leave.
func (r *room) withhold(allocs []place.Alloc) {
	if r == nil {
		return
	}
	if r.withheld == nil {
		r.withheld = map[place.NodeIndex][]place.Alloc{}
	}
	for i := range allocs {
		node := allocs[i].Node
		r.touched = append(r.touched, node)
		r.withheld[node] = append(r.withheld[node], allocs[i])
	}
	place.TakeBack(r.nodes, allocs)
}

// take books what a job starts on now, or was promised.
func (r *room) take(placement place.Placement, exclusive bool) {
	if r == nil {
		return
	}
	r.on.add(-1, placement, exclusive)
	r.touch(placement)
	place.Take(r.nodes, placement, exclusive)
}

func (r *room) touch(placement place.Placement) {
	for i := range placement.Allocs {
		r.touched = append(r.touched, placement.Allocs[i].Node)
	}
}
