package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file is the stage that makes room: a job that waits only for resources,
// and may preempt others, is promised nodes that will be free once some jobs
// are gone. The nodes are kept for it, and it starts in a later pass.
//
// A promise is not stored; only the jobs that leave are. The next pass comes to
// the same promise, because jobs that end count as gone, those before it in the
// order are the same, and those after it got none of its nodes. Two jobs of
// different kinds could take each other's promise, so at most one is promised
// something in a region of nodes; after it come only jobs of its own shape that
// need one node, because the same number of those fits in whatever order they
// are placed.

// passSteps bounds what one pass spends on choosing, in nodes looked at: about
// a tenth of a second. A job that comes too late for it is tried in a later
// pass.
const passSteps = 500_000

// way is how a job gets room.
type way struct {
	entry
	placement place.Placement
	victims   []victim // none: those that leave anyway suffice
	choice    *Choice
}

// makeRoom promises room to the tasks of a job that did not fit. stopped are
// the turns in which a limit stops the job; makeRoom updates it.
func (p *pass) makeRoom(turns []entry, stopped []bool) {
	if p.Preemption.Type == PreemptNone && !turns[0].isOwn() {
		return
	}
	job := turns[0].job
	for p.left[job] > 0 {
		w, found := p.findRoom(turns, stopped)
		if !found {
			return
		}
		if p.stopsPlaced(w.entry, w.placement) {
			stopped[slices.Index(turns, w.entry)] = true
			return
		}
		p.promise(&w)
		p.left[job]--
		for i, e := range turns {
			stopped[i] = stopped[i] || p.left[job] > 0 && p.stops(e)
		}
	}
}

// findRoom finds room for one task of a job in its partitions of one tier:
// where the jobs that leave anyway suffice, or else where the least is lost.
func (p *pass) findRoom(turns []entry, stopped []bool) (way, bool) {
	var open []entry
	for i, e := range turns {
		if !stopped[i] && p.mayMakeRoom(e) {
			open = append(open, e)
		}
	}
	// On its own nodes a job waits for those that leave: they may do so for it, and
	// would come back if it went elsewhere.
	if len(open) == 0 || !turns[0].isOwn() && p.fitsBelow(turns, p.nodes, nobody) {
		return way{}, false
	}
	for _, e := range open {
		shape, index, _ := p.at(e)
		if placement, fits := p.fitBeside(p.room.nodes, p.roomIn(e, index), shape, p.room.leaves); fits {
			return way{entry: e, placement: placement}, true
		}
	}
	if p.room.steps >= passSteps || turns[0].isOwn() && p.defersTo(turns) || !turns[0].isOwn() && p.fitsBelow(turns, p.room.nodes, p.room.leaves) {
		return way{}, false
	}
	return p.choose(open)
}

// choose finds the victims that lose the least.
func (p *pass) choose(open []entry) (way, bool) {
	w, found := p.chooseBy(open, open[0].isOwn())
	if !found && open[0].isOwn() && p.Preemption.Type != PreemptNone {
		return p.chooseBy(open, false) // beside the memory of guests there was no room
	}
	return w, found
}

// chooseBy chooses by what the owner's jobs may do, or else as everywhere.
func (p *pass) chooseBy(open []entry, own bool) (way, bool) {
	var best, next *option
	var of entry
	for _, e := range open {
		g := p.victimSearchFor(e, own)
		g.search()
		p.room.steps += g.steps
		for _, o := range []*option{g.best, g.next} {
			switch {
			case o == nil:
			case best == nil || compareOptions(o, best) < 0:
				best, next, of = o, best, e
			case (next == nil || compareOptions(o, next) < 0) && !slices.Equal(o.ids, best.ids):
				next = o
			}
		}
	}
	if best == nil {
		return way{}, false
	}
	w := way{entry: of, placement: best.placement, victims: best.victims, choice: &Choice{For: of.id, CostGPUMS: best.cost}}
	for _, alloc := range best.placement.Allocs {
		w.choice.Nodes = append(w.choice.Nodes, alloc.Node)
	}
	if next != nil {
		w.choice.NextBest, w.choice.NextCostMS = next.ids, next.cost
	}
	return w, true
}

// mayMakeRoom reports whether a job may be promised something in a partition:
// it waits there only for resources, may preempt some job, and takes no room
// that was promised to another.
func (p *pass) mayMakeRoom(e entry) bool {
	shape, index, t := p.at(e)
	here := &p.partitions[index]
	if here.blocker != 0 || p.firstIn(e, here) != 0 || p.rules(t, shape, index).Code != ReasonNone {
		return false
	}
	if p.future != nil && !p.future.licensed(&p.Waiting[e.job], p.NowMS, shape.terms(true)) {
		return false
	}
	if p.room == nil {
		p.room = newRoom(p)
	}
	if !p.room.rules.isPreemptor(&p.Waiting[e.job], index) {
		return false
	}
	if p.feasibility.decideOn(t, shape, index); t.verdict.code != ReasonNone {
		return false
	}
	kind := p.kind(e)
	for _, partition := range p.regionOf(e) {
		for _, node := range p.Partitions[partition].Nodes {
			if other := p.room.region[node]; other != 0 && (other != kind || p.room.closings != p.closings) {
				return false
			}
		}
	}
	return true
}

// regionOf is the partitions in which a job that is promised something may start
// as well. On its own nodes a job goes before those that get no promise there.
func (p *pass) regionOf(e entry) []int {
	partitions := p.Shapes[p.Waiting[e.job].Shape].Partitions
	if !e.isOwn() {
		return partitions
	}
	return slices.DeleteFunc(slices.Clone(partitions), func(index int) bool { return !p.Partitions[index].isPart() })
}

// kind tells which promises may be in one region together: those of one shape
// that need one node. 0 may not be compared: it is like no other.
func (p *pass) kind(e entry) int32 {
	shape := p.Waiting[e.job].Shape
	if _, high := p.Shapes[shape].Request.NodeBounds(); high != 1 {
		return 0
	}
	return int32(shape) + 1
}

// fitsBelow reports whether the job fits on these nodes when its turn comes in
// other partitions, on nodes that it does not block before: then nobody is
// chosen for it.
func (p *pass) fitsBelow(turns []entry, nodes []place.Node, absent func(int, place.NodeIndex) bool) bool {
	number := p.Waiting[turns[0].job].Shape
	shape := &p.Shapes[number]
	later := func(choice int, index int) bool {
		return p.Partitions[index].tier() <= turns[0].tier &&
			!slices.ContainsFunc(turns, func(e entry) bool { return int(e.choice) == choice })
	}
	blocks := func(node place.NodeIndex) bool {
		return !turns[0].isOwn() && slices.ContainsFunc(turns, func(e entry) bool {
			_, found := slices.BinarySearch(p.Partitions[shape.Partitions[e.choice]].Nodes, node)
			return found
		})
	}
	for choice, index := range shape.Partitions {
		t := &p.trials[number][choice]
		if !later(choice, index) || p.partitions[index].blocker != 0 || p.rules(t, shape, index).Code != ReasonNone {
			continue
		}
		if _, fits := p.fitBeside(nodes, slices.DeleteFunc(slices.Clone(p.open(index)), blocks), t.shape, absent); fits {
			return true
		}
	}
	return false
}

// roomIn is the nodes of a partition where a job may be promised something:
// those that are kept for no job, or for jobs like it.
func (p *pass) roomIn(e entry, index int) []place.NodeIndex {
	kind := p.kind(e)
	var nodes []place.NodeIndex
	for _, node := range p.Partitions[index].Nodes {
		if p.closedBy[node] == 0 || kind != 0 && p.room.promised[node] == kind {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// promise keeps a job's nodes for it and tells its victims to go.
func (p *pass) promise(w *way) {
	shape, index, _ := p.at(w.entry)
	for i := range w.victims {
		v := &w.victims[i]
		p.room.leave(p.Snapshot, v.at, v.mode, v.Placement)
		p.room.leaveMS[v.at] = v.leaveMS
		if v.mode == PreemptSuspend || v.mode == PreemptPark {
			p.suspended.add(p, suspended{Running: &p.Running[v.at], chosen: true, parking: v.parking()})
			p.suspended.sort()
		}
		p.preemptions = append(p.preemptions, Preemption{
			Victim: v.id, For: w.id, Mode: v.mode, Own: v.own, GraceS: p.room.rules.graceS(&p.Running[v.at], v.mode), LostGPUMS: v.lost, Choice: w.choice,
		})
	}
	leaving := p.leavingFrom(w.placement)
	if before := p.reasons[w.job].Lack; before != nil { // other tasks of the array
		leaving = append(leaving, before.Leaving...)
		slices.Sort(leaving)
		leaving = slices.Compact(leaving)
	}
	p.room.take(w.placement, shape.Request.Exclusive)
	p.promiseLicenses(&p.Waiting[w.job], after(p.goneMS(w.placement), shape.spanMS()))
	for _, alloc := range w.placement.Allocs {
		p.closedBy[alloc.Node] = cmp.Or(p.closedBy[alloc.Node], w.id)
		p.room.promised[alloc.Node] = p.kind(w.entry)
		p.room.kept[alloc.Node] = true
	}
	for _, partition := range p.regionOf(w.entry) {
		for _, node := range p.Partitions[partition].Nodes {
			p.room.region[node] = cmp.Or(p.kind(w.entry), -1)
		}
	}
	p.closings++
	p.room.closings = p.closings
	p.reasons[w.job] = Reason{Job: w.id, Code: ReasonResources, Partition: int32(index), Lack: &Lack{Leaving: leaving}}
}

// leavingFrom is the jobs that leave the nodes of a placement, ascending.
func (p *pass) leavingFrom(placement place.Placement) []JobID {
	var ids []JobID
	for i := range p.Running {
		if p.room.leaving[i] && onNodes(p.Running[i].Placement, placement) > 0 {
			ids = append(ids, p.Running[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// onNodes counts the allocations of one placement that are on nodes of another.
func onNodes(allocs, nodes place.Placement) int {
	count := 0
	for i := range allocs.Allocs {
		if allocOn(nodes, allocs.Allocs[i].Node) >= 0 {
			count++
		}
	}
	return count
}

// allocOn is the position of the allocation on a node; -1 = there is none.
func allocOn(placement place.Placement, node place.NodeIndex) int {
	at, found := slices.BinarySearchFunc(placement.Allocs, node, func(a place.Alloc, node place.NodeIndex) int {
		return cmp.Compare(a.Node, node)
	})
	if !found {
		return -1
	}
	return at
}
