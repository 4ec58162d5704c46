package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file fills holes with jobs that can be saved. A job that waits only for resources
// may start in a hole that is shorter than its time limit, if its partition says so and
// what it gets done there is more than what it takes to save and to resume it. It makes
// room when something that is planned needs it: it is told early enough to be saved and
// gone by then, even if that takes as long as it ever may. Then it waits, and resumes from
// its image.
//
// Such a job comes after all others: it gets what these leave, and for the plan it is as
// good as gone in the time that it takes to save it. So it makes no planned start later.
// Jobs with a planned start of their own wait for that. How long the hole is is not
// stored: when jobs end before their limits it is needed sooner, and when what was planned
// is gone the job runs on.

// leaveEarlyMS is how much sooner than it must a job is told to make room: passes are not
// made to the millisecond.
const leaveEarlyMS = 2000

// holeTries is how many times a hole is looked for that is twice as long.
const holeTries = 6

// saveMS is how long it takes at most until a job has made room.
func (r *Running) saveMS() int64 { return max(int64(r.SaveS)*1000, soonMS) }

// worthMS is for how long it is worth starting a job that can be saved: until it has left
// again it works at least as long as it takes to save and to resume it, and to resume it
// now if it was saved before.
func (j *Job) worthMS() int64 {
	worth := 2*int64(j.SaveS) + int64(j.RestoreS)
	if j.Image != 0 {
		worth += int64(j.RestoreS)
	}
	return 1000*worth + leaveEarlyMS
}

// fillHoles starts jobs that can be saved where what is planned leaves them something, in
// the order of their turns.
func (p *pass) fillHoles(entries []entry) {
	if !p.Backfill.On || p.future == nil || !slices.ContainsFunc(p.Partitions, func(of Partition) bool { return of.FillsHoles }) {
		return
	}
	for _, e := range entries {
		if p.mayFill(e) {
			p.fill(e)
		}
	}
}

// mayFill reports whether a job may start in a hole of a partition.
func (p *pass) mayFill(e entry) bool {
	shape, index, t := p.at(e)
	job, here := &p.Waiting[e.job], &p.partitions[index]
	why := p.reasons[e.job].Code
	return p.Partitions[index].FillsHoles && !e.isOwn() && job.SaveS > 0 && p.left[e.job] > 0 &&
		(why == ReasonResources || why == ReasonPriority) && here.blocker == 0 &&
		job.worthMS() < shape.spanMS() && (t.noHole == 0 || job.worthMS() < t.noHole) &&
		p.rules(t, shape, index).Code == ReasonNone && t.judged && t.verdict.code == ReasonNone && !p.hasPlan[e.job]
}

// fill starts as many tasks of a job as there are holes for, each in a long one.
func (p *pass) fill(e entry) {
	shape, index, t := p.at(e)
	job := &p.Waiting[e.job]
	for p.left[e.job] > 0 && !p.stops(e) {
		span := job.worthMS()
		placement, fits := p.fitNow(e, index, shape, both(span))
		if !fits || !p.future.licensed(job, p.NowMS, both(span)) {
			t.noHole = span
			return
		}
		for longer := min(span<<holeTries, shape.spanMS()); longer > span; longer /= 2 {
			if there, is := p.fitNow(e, index, shape, both(longer)); is {
				placement = there
				break
			}
		}
		if p.stopsPlaced(e, placement) {
			return
		}
		p.begin(e, &placement, both(span))
		p.starts[len(p.starts)-1].Fills = true
		needed := p.neededMS(&placement, shape.Request.Exclusive, job.Licenses, p.NowMS, both(span))
		p.tellAt(needed - int64(job.SaveS)*1000)
	}
	if p.left[e.job] == 0 {
		p.noteStarted(e)
	}
}

// makeFillersLeave tells jobs that fill holes to make room for what is planned, when it is
// time. Of several on one node those that began first may stay.
func (p *pass) makeFillersLeave() {
	var fillers []int
	for i := range p.Running {
		if r := &p.Running[i]; r.Fills && !r.Ending && !r.Suspended && (p.room == nil || !p.room.leaving[i]) {
			fillers = append(fillers, i)
		}
	}
	if len(fillers) == 0 || p.future == nil {
		return
	}
	slices.SortFunc(fillers, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Running[a].StartMS, p.Running[b].StartMS), cmp.Compare(p.Running[a].ID, p.Running[b].ID))
	})
	for _, i := range fillers {
		r := &p.Running[i]
		goneMS := p.NowMS + r.saveMS()
		if goneMS >= p.limitMS(r) {
			continue // it is over by then
		}
		needed := p.neededMS(&r.Placement, r.Exclusive, r.Licenses, goneMS, both(0))
		if p.tellAt(needed - r.saveMS()) {
			p.stays(r, goneMS, needed)
		} else {
			p.preemptions = append(p.preemptions, p.leaveHole(r, needed))
		}
	}
}

// tellAt reports whether a job need not be told yet, which has to begin to make room at a
// time, and has a pass made when it must be told.
func (p *pass) tellAt(atMS int64) bool {
	if atMS-leaveEarlyMS <= p.NowMS {
		return false
	}
	if atMS < profile.Forever/2 {
		p.nextMS = sooner(p.nextMS, atMS-leaveEarlyMS)
	}
	return true
}

// neededMS is from when on what a job has is needed for what is planned, if it has it from a
// time on for a span.
func (p *pass) neededMS(placement *place.Placement, exclusive bool, licenses []LicenseCount, from int64, span terms) int64 {
	f, needed := p.future, profile.Forever
	for i := range placement.Allocs {
		alloc := &placement.Allocs[i]
		needed = min(needed, f.until(int(alloc.Node), from, span, p.Nodes[alloc.Node].RoomOf(alloc, exclusive, true)), f.otherUserMS(alloc.Node, placement, after(from, span.likely)))
	}
	for _, license := range licenses {
		needed = min(needed, f.until(f.license(license.License), from, span, []int64{int64(license.Count)}))
	}
	return needed
}

// otherUserMS is from when on a node is for jobs of another user only, or has some of one
// who may not be beside a placement; Forever is never.
func (f *future) otherUserMS(node place.NodeIndex, placement *place.Placement, from int64) int64 {
	first := profile.Forever
	if f.users == nil {
		return first
	}
	for _, other := range f.users[node] {
		if other.To > from && other.user != placement.User && (other.only || placement.UserOnly) {
			first = min(first, max(other.From, from))
		}
	}
	return first
}

// stays enters that a job keeps what it has for a while.
func (p *pass) stays(r *Running, from, to int64) {
	for i := range r.Placement.Allocs {
		alloc := &r.Placement.Allocs[i]
		p.future.book(int(alloc.Node), from, both(to-from), p.Nodes[alloc.Node].RoomOf(alloc, r.Exclusive, true))
	}
	for _, license := range r.Licenses {
		p.future.book(p.future.license(license.License), from, both(to-from), []int64{int64(license.Count)})
	}
}

// leaveHole is what a job is told that has to make room by a time: it is saved, or if it
// cannot be saved now, waits and begins again.
func (p *pass) leaveHole(r *Running, byMS int64) Preemption {
	mode := PreemptCheckpoint
	if !r.Saves {
		mode = PreemptRequeue
	}
	rules := preemptRules{Snapshot: p.Snapshot}
	lost, of := rules.lost(r, mode), p.firstPlannedOn(r.Placement)
	return Preemption{
		Victim: r.ID, For: of, Mode: mode, Fills: true, GoneByMS: byMS, LostGPUMS: lost,
		Choice: &Choice{For: of, Nodes: nodesOf(r.Placement), CostGPUMS: lost},
	}
}

// firstPlannedOn is the job that is planned to start first on some nodes; if none is,
// what is needed are licenses, or the nodes for something else than a job.
func (p *pass) firstPlannedOn(nodes place.Placement) JobID {
	var first *plan
	for i := range p.plans {
		if of := &p.plans[i]; onNodes(of.Placement, nodes) > 0 && (first == nil || of.StartMS < first.StartMS) {
			first = of
		}
	}
	if first == nil {
		return 0
	}
	return first.Job
}
