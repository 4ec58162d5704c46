package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file is the stage that plans ahead. A job that waits only for resources gets a
// planned start: the earliest time at which its nodes are free for as long as it may
// run. From then on in the pass, others start only where they leave it that. Jobs
// behind those that are planned may start as they like, so a small job fills the hole
// in front of a wide one and does not delay it.
//
// Where no start can be planned, because jobs without a time limit are in the way, the
// partition's nodes are kept for the job, as without backfill: otherwise it might never
// start.

// BackfillPolicy says whether jobs may start before others that wait, and for which of
// these a start is planned (slurm.conf(5), SchedulerType and SchedulerParameters).
type BackfillPolicy struct {
	// On: sched/backfill. Otherwise nothing starts before a job that waits, as with
	// sched/builtin.
	On bool
	// PartJobs is for how many jobs in each partition a start is planned
	// (bf_job_part_count_reserve); 0 = for all.
	PartJobs uint32
	// MaxJobs is for how many in all, at most (bf_max_job_test); 0 = any number.
	MaxJobs uint32
	// ArrayTasks is for how many tasks of an array, at most
	// (bf_max_job_array_resv); 0 = one.
	ArrayTasks uint32
	// FirstByLimits: the first planned start of each partition goes by time limits and not by
	// what jobs are planned for, so that no prediction moves it. See sure.go.
	FirstByLimits bool
	// ShortestFirst: the jobs behind those that are planned start in the order of the
	// times that they are planned for.
	ShortestFirst bool
}

// Promises are the starts that a pass has planned.
type Promises struct {
	Planned []Planned // in the order decided; an array has one for each task that is planned
	Behind  []Behind  // ascending by job
	Lost    []Lost    // ascending by job
}

// Lost is a job that waits and had a planned start before.
type Lost struct {
	Job   JobID
	Moved Moved
}

// Behind is a job that waits and has no planned start.
type Behind struct {
	Job   JobID
	Count uint32 // of planned starts, when the job had its turn
}

// Planned is a start that is planned.
type Planned struct {
	Job       JobID
	Partition int // index into Snapshot.Partitions
	StartMS   int64
	Placement place.Placement
	// Apart: the job waits for a time, a license or a limit, and not for nodes. Such jobs
	// are counted by themselves (BackfillPolicy.PartJobs).
	Apart bool
	// LimitS is as in Start.
	LimitS uint32
	Sure   bool  // it goes by time limits: see BackfillPolicy.FirstByLimits
	Moved  Moved // why it does not start sooner, as it was planned before
}

// planCounts are numbers of jobs: that wait for nodes, and that are apart.
type planCounts [2]uint32

func (c *planCounts) of(apart bool) *uint32 {
	if apart {
		return &c[1]
	}
	return &c[0]
}

// plan is one, with what it was made from.
type plan struct {
	Planned
	entry entry
	shape *Shape
}

// maxTries bounds how many times a search places a job: times at which it looks as if
// it would fit and does not, because of how its tasks or nodes must lie.
const maxTries = 100

// reserve plans the starts of a job that waits only for resources in some partitions,
// where it starts first. It reports whether nothing needs to be kept for the job besides.
func (p *pass) reserve(turns []entry, old []int, apart bool) bool {
	job := turns[0].job
	_, index, _ := p.at(turns[0])
	if !p.hasQuota(job, index, apart) || p.hasPlan[job] {
		return true // others may go before it, or it is planned by an earlier turn
	}
	for n := range min(p.left[job], max(p.Backfill.ArrayTasks, 1)) {
		sure := p.isSure(turns[0], old, apart)
		best, found := p.firstOf(turns, old, n, sure)
		if !found {
			return n > 0 || p.Backfill.FirstByLimits && !sure
		}
		if late := p.Waiting[job].DeadlineMS != 0 && best.StartMS > p.latestStart(&p.Waiting[job]); late {
			return true // it will be ended before
		}
		best.Apart = apart
		p.stand(&best)
		p.plans = append(p.plans, best)
		p.hasPlan[job] = true
		if n == 0 {
			*p.partitions[p.whole(index)].planned.of(apart)++
			p.plannedJobs++
		}
	}
	return true
}

// reserveApart plans the start of a job that does not wait for nodes that others have: but
// for licenses, or for nodes that are closed to it now. If it cannot, nothing is kept for
// the job.
func (p *pass) reserveApart(turns []entry, old []int) {
	job := turns[0].job
	if !p.planning || turns[0].isOwn() {
		return
	}
	stopped := p.reasons[job].Code == ReasonLicenses
	var open []entry
	for _, e := range turns {
		shape, index, t := p.at(e)
		if p.rules(t, shape, index).Code != ReasonNone || p.partitions[index].blocker != 0 {
			continue
		}
		p.feasibility.decideOn(t, shape, index)
		if stopped && t.verdict.code == ReasonNone || p.opensLater(t, index) {
			open = append(open, e)
		}
	}
	if len(open) > 0 {
		p.reserve(open, old, true)
	}
}

// hasQuota reports whether a start may be planned for one more job in a partition. A job
// that the last plan planned counts from the beginning.
func (p *pass) hasQuota(job int32, index int, apart bool) bool {
	if !p.promised.void && len(p.promised.byJob[job]) > 0 {
		return true
	}
	here := &p.partitions[p.whole(index)]
	return (p.Backfill.PartJobs == 0 || *here.planned.of(apart)+*here.standing.of(apart) < p.Backfill.PartJobs) &&
		(p.Backfill.MaxJobs == 0 || p.plannedJobs+p.promised.jobs < p.Backfill.MaxJobs)
}

// firstOf is the earliest start of a task of a job: what was planned before, if that is
// earlier than what is found now.
func (p *pass) firstOf(turns []entry, old []int, n uint32, sure bool) (best plan, found bool) {
	best, found = p.earliest(turns, sure)
	if int(n) >= len(old) {
		return best, found
	}
	before := p.promised.plans[old[n]]
	if (!found || best.StartMS > before.StartMS) && p.settleSoonest(&before) && (!found || best.StartMS > before.StartMS) && !p.triedNow(&before) {
		return before, true
	}
	return best, found
}

// earliest is where a task of a job can start first.
func (p *pass) earliest(turns []entry, sure bool) (best plan, found bool) {
	for _, e := range turns {
		at, placement, shape, fits := p.earliestOf(e, sure)
		if !fits || found && best.StartMS <= at {
			continue
		}
		_, index, _ := p.at(e)
		best, found = plan{Planned{Job: e.id, Partition: index, StartMS: at, Placement: placement, LimitS: p.limitOf(e, shape), Sure: sure}, e, shape}, true
	}
	return best, found
}

// change is when a node, or a license, comes to be free long enough for a job, or is so
// no longer.
type change struct {
	atMS int64
	lane int32
	by   int8 // 1, -1, or 0 if only more or less of it is free
}

// search finds when and where a job can start first with a shape.
func (p *pass) search(e entry, shape *Shape, sure bool) (int64, place.Placement, bool) {
	_, index, _ := p.at(e)
	f, job, r := p.needFuture(), &p.Waiting[e.job], &shape.Request
	changes := p.changes[:0]
	least := r.Least()
	for _, node := range p.openTo(e, index) {
		if n := &p.nodes[node]; r.Names(n) {
			p.roomFor = n.RoomFor(r, &least, p.roomFor)
			changes = p.opensOn(changes, int(node), shape, sure, p.roomFor, !r.Plain(n) || f.users != nil)
		}
	}
	for _, license := range job.Licenses {
		changes = p.opensOn(changes, f.license(license.License), shape, sure, []int64{int64(license.Count)}, false)
	}
	licensed := len(job.Licenses)
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.atMS, b.atMS), cmp.Compare(a.lane, b.lane), cmp.Compare(b.by, a.by))
	})
	p.changes = changes
	low, _ := r.NodeBounds()
	open := make([]bool, len(p.nodes))
	count, tries := uint32(0), 0
	for i := 0; i < len(changes); {
		at, more := changes[i].atMS, false
		for ; i < len(changes) && changes[i].atMS == at; i++ {
			c := changes[i]
			switch {
			case int(c.lane) >= len(p.nodes):
				licensed -= int(c.by)
			case c.by != 0:
				open[c.lane], count = c.by > 0, count+uint32(int32(c.by))
			}
			more = more || c.by >= 0
		}
		if !more || at == p.NowMS || count < low || licensed > 0 {
			continue
		}
		if placement, fits := p.fitAt(at, shape, sure, open); fits {
			return at, placement, true
		}
		if tries++; tries == maxTries {
			break
		}
	}
	return 0, place.Placement{}, false
}

// opensOn appends when a lane has and has not room for a job. all: every change of the
// lane may matter besides.
func (p *pass) opensOn(changes []change, lane int, shape *Shape, sure bool, room []int64, all bool) []change {
	f := p.future
	p.holes = f.holes(lane, p.NowMS, shape.terms(sure), room, p.holes[:0])
	if lane < len(p.nodes) {
		p.holes = shape.begins(place.NodeIndex(lane), p.holes)
	}
	for _, hole := range p.holes {
		changes = append(changes, change{hole.From, int32(lane), 1})
		if hole.To != profile.Forever {
			changes = append(changes, change{hole.To, int32(lane), -1})
		}
	}
	if all {
		p.times = f.profile.Changes(lane, p.NowMS, p.times[:0])
		if sure && f.sure != nil {
			p.times = f.sure.Changes(lane, p.NowMS, p.times)
		}
		for _, at := range p.times {
			changes = append(changes, change{at, int32(lane), 0})
		}
	}
	return changes
}

// fitAt places a job at a later time on nodes that have room for it then: on those that
// do not have it now if they suffice, because the others can be of use until then.
func (p *pass) fitAt(at int64, shape *Shape, sure bool, open []bool) (place.Placement, bool) {
	f, r := p.future, &shape.Request
	span, untilNow := shape.terms(sure), after(p.NowMS, shape.spanMS())
	least := r.Least()
	var all, busy []place.NodeIndex
	for i, is := range open {
		if !is {
			continue
		}
		node, n := place.NodeIndex(i), &p.nodes[i]
		ahead := n.Ahead(f.least(i, at, span))
		f.nodes[i] = f.through(&ahead, node, at, span, r)
		all = append(all, node)
		if p.roomFor = n.RoomFor(r, &least, p.roomFor); !f.profile.Fits(i, p.NowMS, untilNow, p.roomFor) {
			busy = append(busy, node)
		}
	}
	if low, _ := r.NodeBounds(); uint32(len(busy)) >= low && len(busy) < len(all) {
		if placement, fits := place.Find(f.nodes, busy, *r); fits {
			return placement, true
		}
	}
	return place.Find(f.nodes, all, *r)
}

// noteBehind notes a job that waits and has no planned start.
func (p *pass) noteBehind(e entry) {
	if p.Backfill.On && p.left[e.job] > 0 && !e.isOwn() && !p.hasPlan[e.job] && p.behind[e.job] == 0 {
		p.behind[e.job] = 1 + uint32(len(p.plans))
	}
}

// plannedOn is a job other than this one with a planned start on nodes of a placement,
// or anywhere if there is none on these.
func (p *pass) plannedOn(placement place.Placement, job JobID) JobID {
	anywhere := JobID(0)
	on := func(of *plan) bool {
		if of.Job == job {
			return false
		}
		anywhere = cmp.Or(anywhere, of.Job)
		return onNodes(of.Placement, placement) > 0
	}
	for i := range p.plans {
		if on(&p.plans[i]) {
			return p.plans[i].Job
		}
	}
	for i, stands := range p.promised.stand {
		if stands && on(&p.promised.plans[i]) {
			return p.promised.plans[i].Job
		}
	}
	return anywhere
}

// nextPlanned is when the first job is planned to start: then it does, or it is seen what
// keeps it from that. 0 = none is planned.
func (p *pass) nextPlanned() (nextMS int64) {
	for i := range p.plans {
		nextMS = sooner(nextMS, p.plans[i].StartMS)
	}
	return nextMS
}

// promises are the planned starts of a pass. last are those that were planned before.
func (p *pass) promises(last *Promises) Promises {
	now := Promises{}
	if len(p.plans) > 0 {
		now.Planned = make([]Planned, len(p.plans))
		for i := range p.plans {
			now.Planned[i] = p.plans[i].Planned
			now.Planned[i].Partition = p.whole(now.Planned[i].Partition)
		}
		now.Behind = p.allBehind()
	}
	p.noteMoves(&now, last)
	return now
}

// allBehind are the jobs that wait and have no planned start, ascending.
func (p *pass) allBehind() []Behind {
	behind := make([]Behind, 0, len(p.behind))
	for i, noted := range p.behind {
		if noted > 0 {
			behind = append(behind, Behind{Job: p.reasons[i].Job, Count: noted - 1})
		}
	}
	if len(behind) == 0 {
		return nil
	}
	if !p.ascending {
		slices.SortFunc(behind, func(a, b Behind) int { return cmp.Compare(a.Job, b.Job) })
	}
	return behind
}
