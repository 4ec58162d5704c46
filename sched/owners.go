package sched

import (
	"math"
	"math/bits"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file lets jobs go first on the nodes that their account owns, and says what
// they may do to the guests there: park them.
//
// Such a job has a turn of its own before all others, for the nodes of each of its
// partitions that its account owns: its own part of the partition. If it does not fit
// there, nor anywhere else in what is free, guests are parked for it as others are
// preempted, and only there. While guests are in its way the part is kept for it: one
// that comes to wait again, because it could not be parked, does not get the room that it
// made. After that the job has its turns among all others.

// part is which nodes of a partition a partition has. The zero part is all.
type part struct {
	of    int32 // 1 + the index of the whole partition
	owner int32 // whose nodes, as in Job.Owner
}

// ownTurn is added to the tier of a turn in an own part, which so comes before all
// others.
const ownTurn = 1 << 32

func (p *Partition) isPart() bool { return p.part.of != 0 }

// tier is that of a turn in the partition.
func (p *Partition) tier() uint64 {
	if p.isPart() {
		return ownTurn + uint64(p.PriorityTier)
	}
	return uint64(p.PriorityTier)
}

// whole is the index of a partition, or of the one that it is a part of.
func (s *Snapshot) whole(index int) int {
	if index >= 0 && s.Partitions[index].isPart() {
		return int(s.Partitions[index].part.of - 1)
	}
	return index
}

// withOwnParts is the snapshot with the own parts of partitions behind the
// partitions, and behind those of the shapes whose jobs have some. Their jobs have
// shapes of their own.
func withOwnParts(s Snapshot) Snapshot {
	if len(s.Owners) == 0 || !slices.ContainsFunc(s.Waiting, func(job Job) bool { return job.Owner != 0 }) {
		return s
	}
	type variant struct {
		shape int
		owner int32
	}
	shapes, parts := map[variant]int{}, map[part]int{}
	s.Partitions, s.Shapes, s.Waiting = slices.Clone(s.Partitions), slices.Clone(s.Shapes), slices.Clone(s.Waiting)
	for i := range s.Waiting {
		job := &s.Waiting[i]
		if job.Owner == 0 {
			continue
		}
		v := variant{job.Shape, job.Owner}
		at, known := shapes[v]
		if !known {
			at = s.shapeWithParts(job.Shape, job.Owner, parts)
			shapes[v] = at
		}
		job.Shape = at
	}
	return s
}

// shapeWithParts is the index of a shape with an owner's parts of its partitions.
func (s *Snapshot) shapeWithParts(index int, owner int32, parts map[part]int) int {
	shape := s.Shapes[index]
	partitions := slices.Clone(shape.Partitions)
	for _, of := range shape.Partitions {
		key := part{of: int32(of) + 1, owner: owner}
		at, known := parts[key]
		if !known {
			at = -1
			own := s.Partitions[of]
			own.part, own.Nodes = key, common(own.Nodes, s.Owners[owner-1])
			if len(own.Nodes) > 0 {
				at = len(s.Partitions)
				s.Partitions = append(s.Partitions, own)
			}
			parts[key] = at
		}
		if at >= 0 {
			partitions = append(partitions, at)
		}
	}
	if len(partitions) == len(shape.Partitions) {
		return index
	}
	shape.Partitions = partitions
	s.Shapes = append(s.Shapes, shape)
	return len(s.Shapes) - 1
}

// common is what is in both of two ascending lists.
func common(a, b []place.NodeIndex) []place.NodeIndex {
	var both []place.NodeIndex
	for _, node := range a {
		if _, is := slices.BinarySearch(b, node); is {
			both = append(both, node)
		}
	}
	return both
}

// owns reports whether an account's jobs go first on a node; owner is as in Job.
func (s *Snapshot) owns(owner int32, node place.NodeIndex) bool {
	if owner == 0 {
		return false
	}
	_, is := slices.BinarySearch(s.Owners[owner-1], node)
	return is
}

// isGuest reports whether a job has something on a node that another job's account
// owns and its own does not.
func (s *Snapshot) isGuest(guest *Running, owner int32) bool {
	if owner == 0 || owner == guest.Owner {
		return false
	}
	on := func(alloc place.Alloc) bool {
		return s.owns(owner, alloc.Node) && !s.owns(guest.Owner, alloc.Node)
	}
	return slices.ContainsFunc(guest.Placement.Allocs, on)
}

// guestPart is the part of a guest's placement that is on nodes of an owner.
func (s *Snapshot) guestPart(guest *Running, owner int32) place.Placement {
	placement := guest.Placement
	placement.Allocs = nil
	for _, alloc := range guest.Placement.Allocs {
		if s.owns(owner, alloc.Node) && !s.owns(guest.Owner, alloc.Node) {
			placement.Allocs = append(placement.Allocs, alloc)
		}
	}
	return placement
}

// guestMode is what becomes of a guest for a job of the owner: one that is being
// started has nothing to be parked yet, and for another there may be no memory.
func guestMode(guest *Running) PreemptMode {
	switch {
	case guest.Suspends && !guest.ParkBeyond:
		return PreemptPark
	case guest.Requeue:
		return PreemptRequeue
	}
	return PreemptCancel
}

// GuestEligibleMS is from when on a guest may be disturbed by jobs of its node's
// owner.
func (s *Snapshot) GuestEligibleMS(guest *Running) int64 {
	return max(guest.StartMS, guest.ContinuedMS) + int64(min(s.Preemption.GuestExemptTimeS, math.MaxInt32))*1000
}

// parkMS is about how long it takes to park a job and to bring it back.
const parkMS = 10_000

// parkRisk is one in how many parks is taken to fail, which weighs for a job that
// could not be requeued then.
const parkRisk = 16

// CountsOverBorrowed is what the loss of a guest counts whose account borrows more than it
// may: less than that of any other guest, and among themselves the more the more it is.
func CountsOverBorrowed(lost int64) int64 { return int64(bits.Len64(uint64(max(lost, 0)))) }

// guestLost is what a guest loses if it has to make room for the owner's job, and what
// that counts for. One that can hardly be parked loses its work as when it is requeued,
// and that counts twice if it may not be.
func (r *preemptRules) guestLost(guest *Running, mode PreemptMode) (lost, counts int64) {
	ended, parking := r.lost(guest, PreemptRequeue), lostTimes(parkMS, guest.units())
	if !guest.Requeue {
		ended = lostTimes(max(r.NowMS-guest.StartMS-guest.PausedMS, 0), guest.units())
	}
	switch {
	case mode == PreemptPark && guest.Parks && guest.Requeue:
		return parking, parking
	case mode == PreemptPark && guest.Parks:
		return parking, plus(parking, ended/parkRisk)
	case guest.Requeue:
		return ended, ended
	}
	return ended, plus(ended, ended)
}

// ofWholes has the partitions of a plan that was made with own parts be the whole
// ones.
func (plan *Plan) ofWholes(s *Snapshot) {
	for i := range plan.Starts {
		plan.Starts[i].Partition = s.whole(plan.Starts[i].Partition)
	}
	for i := range plan.Reasons {
		plan.Reasons[i].Partition = int32(s.whole(int(plan.Reasons[i].Partition)))
	}
}

// isProtected reports whether a job is where guests that are placed there give way
// to it: on a node that its account owns and the other's does not.
func (s *Snapshot) isProtected(job *Running, owner int32) bool {
	if job.Owner == 0 || job.Owner == owner {
		return false
	}
	owned := func(alloc place.Alloc) bool {
		return s.owns(job.Owner, alloc.Node) && !s.owns(owner, alloc.Node)
	}
	return slices.ContainsFunc(job.Placement.Allocs, owned)
}

// isAtHome reports whether a job has only nodes that its account owns, where it has a turn
// of its own before all others.
func (s *Snapshot) isAtHome(job *Running) bool {
	elsewhere := func(alloc place.Alloc) bool { return !s.owns(job.Owner, alloc.Node) }
	return job.Owner != 0 && len(job.Placement.Allocs) > 0 && !slices.ContainsFunc(job.Placement.Allocs, elsewhere)
}

// standing is that of a job that runs.
func (r *Running) standing() standing { return standing{r.QOS, r.Partition, r.Owner} }

// parking is the part of a job's placement that is on nodes where it is to be
// parked.
func (r *Running) parking() place.Placement {
	placement := r.Placement
	placement.Allocs = nil
	for _, alloc := range r.Placement.Allocs {
		if _, is := slices.BinarySearch(r.Parking, alloc.Node); is {
			placement.Allocs = append(placement.Allocs, alloc)
		}
	}
	return placement
}

// openTo is the nodes of a partition that are kept for no other job.
func (p *pass) openTo(e entry, index int) []place.NodeIndex {
	if p.Waiting[e.job].Owner == 0 || e.isOwn() {
		return p.open(index)
	}
	var open []place.NodeIndex
	for _, node := range p.Partitions[index].Nodes {
		if by := p.closedBy[node]; by == 0 || by == e.id {
			open = append(open, node)
		}
	}
	return open
}

// lendAgain has another pass follow in which others get the nodes that were kept
// for a job that has started after all.
func (p *pass) lendAgain(e entry) {
	if p.Waiting[e.job].Owner != 0 && !e.isOwn() && slices.Contains(p.closedBy, e.id) {
		p.nextMS = sooner(p.nextMS, p.NowMS+1)
	}
}

// wholes are the partitions without the own parts behind them.
func (s *Snapshot) wholes() []Partition {
	n := len(s.Partitions)
	for n > 0 && s.Partitions[n-1].isPart() {
		n--
	}
	return s.Partitions[:n]
}

// guestsInTheWay reports whether a job would fit on its own nodes if there were no guests.
// Otherwise nothing is kept from them for it. What starts in this pass, or is promised,
// does not count, so that the next passes find the same.
func (p *pass) guestsInTheWay(e entry) bool {
	shape, index, _ := p.at(e)
	owner, nodes, on := p.Waiting[e.job].Owner, slices.Clone(p.Nodes), make(occupants, len(p.Nodes))
	gone := absent{gone: make([]bool, len(p.Running))}
	for i := range p.Running {
		r := &p.Running[i]
		on.add(i, r.shares(), r.Exclusive)
		gone.gone[i] = r.Ending || p.isGuest(r, owner)
	}
	for i, leaves := range gone.gone {
		if leaves {
			place.Release(nodes, p.Running[i].Placement, on.without(&gone))
		}
	}
	_, _, fits := place.Fit(nodes, p.Partitions[index].Nodes, shape.Request)
	return fits
}

// defersTo reports whether a job fits elsewhere than on its own nodes in what is free or comes free, as
// far as is known before the others have their turns: then nobody has to leave for it yet.
func (p *pass) defersTo(turns []entry) bool {
	job := turns[0].job
	if p.insists != nil && p.insists[job] {
		return false
	}
	p.room.steps += len(p.Nodes)
	if !p.fitsBelow(turns, p.nodes, nobody) && !p.fitsBelow(turns, p.room.nodes, p.room.leaves) {
		return false
	}
	if p.defers == nil {
		p.defers = make([]bool, len(p.Waiting))
	}
	p.defers[job] = true
	return true
}

// maxInsists bounds how often a pass is made again.
const maxInsists = 3

// inVain is the jobs that have had no guests parked because they would fit elsewhere, and
// did not: others were before them there. They insist on their own nodes when the pass is
// made again, as those before. nil = there are no more of them.
func (p *pass) inVain(before []bool) []bool {
	var insist []bool
	for job, deferred := range p.defers {
		if !deferred || p.left[job] == 0 {
			continue
		}
		if insist == nil {
			if insist = slices.Clone(before); insist == nil {
				insist = make([]bool, len(p.Waiting))
			}
		}
		insist[job] = true
	}
	return insist
}
