package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file keeps what was planned before. The starts that the last plan planned are in
// the Snapshot, and stand in the way of all jobs until the turn of their own: then the
// job starts, or is planned as early as that or earlier. So a planned start moves later
// only if its nodes are not there any more, or if the order of the jobs has changed: a
// job of higher priority came, or overtook it.

// promised are the planned starts of the last plan that stand still.
type promised struct {
	plans   []plan  // in the order in which they were planned
	entered []*plan // the same, in the order in which they were entered
	stand   []bool  // by position in plans: it is in the future
	rank    []int   // likewise: its position in Snapshot.Promises
	left    int     // how many stand
	jobs    uint32  // of how many jobs
	void    bool    // none of them counts any longer
	byJob   map[int32][]int
	// Why some move: each by itself, and those that are void.
	why    map[JobID]Moved
	voidBy Moved
}

// enterPromises enters what can be kept of the last plan.
func (p *pass) enterPromises(priorities *priorities) {
	if !p.Backfill.On || len(p.Promises.Planned) == 0 {
		return
	}
	turnOf := p.turnsOfPromised(priorities)
	p.promised.byJob, p.promised.why = map[int32][]int{}, map[JobID]Moved{}
	kept := make([]*plan, len(p.Promises.Planned))
	count := make(map[int32]uint32, len(turnOf))
	for _, sure := range []bool{true, false} { // no prediction moves the first ones
		for at := range p.Promises.Planned {
			if planned := &p.Promises.Planned[at]; planned.Sure == sure {
				kept[at] = p.keepPlanned(planned, turnOf[planned.Job], count)
			}
		}
	}
	for at, old := range kept {
		if old == nil {
			continue
		}
		job := old.entry.job
		if len(p.promised.byJob[job]) == 0 {
			p.promised.jobs++
			*p.partitions[p.Promises.Planned[at].Partition].standing.of(old.Apart)++
		}
		p.promised.byJob[job] = append(p.promised.byJob[job], len(p.promised.plans))
		p.promised.plans, p.promised.stand = append(p.promised.plans, *old), append(p.promised.stand, true)
		p.promised.rank = append(p.promised.rank, at)
		p.promised.left++
	}
}

// keepPlanned enters a start that was planned before, if it can be kept. count is how many
// of each job are entered.
func (p *pass) keepPlanned(planned *Planned, turns []entry, count map[int32]uint32) *plan {
	turn := slices.IndexFunc(turns, func(e entry) bool {
		_, index, _ := p.at(e)
		return !e.isOwn() && p.whole(index) == planned.Partition
	})
	if turn < 0 || count[turns[turn].job] >= p.left[turns[turn].job] {
		return nil
	}
	e := turns[turn]
	_, _, t := p.at(e)
	old := &plan{*planned, e, t.plannedShape(planned)}
	old.Sure = old.Sure && p.Backfill.FirstByLimits
	was := *old
	settles := p.settleSoonest(old)
	if !settles || old.StartMS > max(planned.StartMS, p.NowMS) {
		p.promised.note(e.id, p.whyLater(&was, max(planned.StartMS, p.NowMS)))
	}
	if !settles {
		return nil
	}
	p.stand(old)
	p.promised.entered = append(p.promised.entered, old)
	count[e.job]++
	return old
}

// turnsOfPromised are the turns of the jobs that the last plan planned, as far as they may
// start. There are few of these, and very many turns.
func (p *pass) turnsOfPromised(priorities *priorities) map[JobID][]entry {
	turns := make(map[JobID][]entry, len(p.Promises.Planned))
	for _, planned := range p.Promises.Planned {
		at := p.waiting(planned.Job)
		if at >= 0 && p.left[at] > 0 && p.reasons[at].Code == ReasonNone && turns[planned.Job] == nil {
			turns[planned.Job] = p.turnsOf(at, priorities)
		}
	}
	return turns
}

// waiting is the position of a job in Waiting; -1 = it is not there.
func (p *pass) waiting(id JobID) int32 {
	if p.ascending {
		if at, is := slices.BinarySearchFunc(p.Waiting, id, func(job Job, id JobID) int { return cmp.Compare(job.ID, id) }); is {
			return int32(at)
		}
		return -1
	}
	return int32(slices.IndexFunc(p.Waiting, func(job Job) bool { return job.ID == id }))
}

// settle finds the first time, from what was planned on, at which there is still room for a
// planned start on its nodes. That is later if a job there outlasts its time, or a node
// has less than it had.
func (p *pass) settle(of *plan) bool {
	f := p.needFuture()
	if !p.mayHave(of) {
		return false
	}
	for range maxTries {
		at := max(of.StartMS, p.NowMS)
		for i := range of.Placement.Allocs {
			alloc := &of.Placement.Allocs[i]
			at = max(at, p.opens(int(alloc.Node), at, of, p.nodes[alloc.Node].RoomOf(alloc, of.shape.Request.Exclusive, true)))
		}
		for _, license := range p.Waiting[of.entry.job].Licenses {
			at = max(at, p.opens(f.license(license.License), at, of, []int64{int64(license.Count)}))
		}
		if at == of.StartMS {
			return true
		}
		if of.StartMS = at; at == profile.Forever {
			return false
		}
	}
	return false
}

// opens is when a lane has room for a planned start, from a time on; Forever is never.
func (p *pass) opens(lane int, from int64, of *plan, room []int64) int64 {
	span := of.terms()
	p.holes = p.future.holes(lane, from, span, room, p.holes[:0])
	if lane < len(p.nodes) {
		p.holes = of.shape.begins(place.NodeIndex(lane), p.holes)
		p.holes = p.future.amongOwn(place.NodeIndex(lane), &of.Placement, max(span.likely, span.sure), p.holes)
	}
	if len(p.holes) == 0 {
		return profile.Forever
	}
	return p.holes[0].From
}

// mayHave reports whether the nodes of a planned start are still there for the job.
func (p *pass) mayHave(of *plan) bool {
	_, index, _ := p.at(of.entry)
	for i := range of.Placement.Allocs {
		alloc := &of.Placement.Allocs[i]
		n, by := &p.nodes[alloc.Node], p.closedBy[alloc.Node]
		if _, is := slices.BinarySearch(p.Partitions[index].Nodes, alloc.Node); !is || by != 0 && by != of.Job || !of.shape.Request.Names(n) || !n.Has(alloc) {
			return false
		}
	}
	return true
}

// stand enters a planned start.
func (p *pass) stand(of *plan) {
	f := p.needFuture()
	f.take(p.Nodes, &p.Waiting[of.entry.job], of.shape, &of.Placement, of.StartMS, of.terms())
	f.mark(&of.Placement, p.setApart)
}

// lift removes a planned start, if it stands.
func (p *pass) lift(at int) {
	if !p.promised.stand[at] {
		return
	}
	of := &p.promised.plans[at]
	p.future.drop(p.Nodes, &p.Waiting[of.entry.job], of.shape, &of.Placement, of.StartMS, of.terms())
	p.promised.stand[at] = false
	p.promised.left--
	if p.promised.byJob[of.entry.job][0] == at {
		p.promised.jobs--
		*p.partitions[of.Partition].standing.of(of.Apart)--
	}
	p.lifts++
}

// liftOwn removes the planned starts of a job whose turn has come in the partition that
// they are in, and returns them: it may be planned again, but not later. If other jobs
// should have had their turns before, the order has changed, and all that is left of the
// last plan is void.
func (p *pass) liftOwn(turns []entry) (own []int) {
	own = p.promised.byJob[turns[0].job]
	if p.promised.void || len(own) == 0 || !p.promised.stand[own[0]] || !slices.Contains(turns, p.promised.plans[own[0]].entry) {
		return nil
	}
	if slices.Contains(p.promised.stand[:own[0]], true) {
		p.liftAll(turns[0].id)
		return nil
	}
	for _, at := range own {
		p.lift(at)
	}
	return own
}

// liftAll makes void what is left of the last plan, because a job goes first.
func (p *pass) liftAll(by JobID) {
	p.promised.void, p.promised.voidBy = true, Moved{By: MovedByPriority, Job: by}
	for at := range p.promised.stand {
		p.lift(at)
	}
}

// overtakes reports whether a job that did not get a planned start from the last plan, and
// may get one in this, has its turn before some of those that were planned before it, or
// was not there: then what is left of the last plan is void. On the nodes that its account
// owns a job goes before all plans, if it fits.
func (p *pass) overtakes(turns []entry, stopped []bool) bool {
	if p.promised.left == 0 || p.left[turns[0].job] == 0 || !turns[0].isOwn() && p.wasBehind(turns[0]) {
		return false
	}
	for i, e := range turns {
		shape, index, t := p.at(e)
		if stopped[i] || p.rules(t, shape, index).Code != ReasonNone || p.partitions[index].blocker != 0 || !e.isOwn() && !p.hasQuota(e.job, index, false) {
			continue
		}
		p.feasibility.decideOn(t, shape, index)
		over := t.verdict.code == ReasonNone
		if over && e.isOwn() {
			_, over = place.Find(p.nodes, p.openTo(e, index), shape.Request)
		}
		if over {
			p.liftAll(turns[0].id)
			return true
		}
	}
	return false
}

// wasBehind reports whether a job had its turn in the last pass too, and all that still
// stands from then was planned after that. Its nodes were there for it, and it did not
// take them.
func (p *pass) wasBehind(e entry) bool {
	if len(p.promised.byJob[e.job]) > 0 {
		return true
	}
	at, was := slices.BinarySearchFunc(p.Promises.Behind, e.id, func(b Behind, id JobID) int { return cmp.Compare(b.Job, id) })
	if !was {
		return false
	}
	for i, stands := range p.promised.stand {
		if stands && p.promised.rank[i] < int(p.Promises.Behind[at].Count) {
			return false
		}
	}
	return true
}
