package sched

import (
	"cmp"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file keeps what will be free: one profile, in which each node and each license
// has a lane. What is free now is what the pass has left; running jobs, those that
// start in this pass and those that are planned are intervals.
//
// The profile counts and does not name CPUs or devices. Jobs that begin one after the
// other, each with as much as is free in numbers through its time, can be given what
// they need one by one: what a job needs is free at its beginning and is taken by
// nobody who begins later. So a plan can be kept whatever starts beside it.

// soonMS is when a job is taken to be gone whose time is over, or whose end is decided.
const soonMS = 1000

// future is what will be free.
type future struct {
	profile *profile.Profile // a lane for each node, and then one for each license
	sure    *profile.Profile // the same by time limits: see sure.go; nil = there is no difference
	planned []place.NodeIndex
	has     []bool        // by node: something is planned there, as planned lists it
	users   [][]userStays // by node: nil unless it matters whose jobs share a node
	nodes   []place.Node  // as they are at the time that is looked at
	room    []int64

	sureRoom []int64
}

// userStays is a job on a node, of which it matters whose it is.
type userStays struct {
	profile.Interval
	user uint32
	only bool
}

// needFuture makes the future of a pass when it is needed first.
func (p *pass) needFuture() *future {
	if p.future != nil {
		return p.future
	}
	f := &future{profile: &p.scratch.profile, has: make([]bool, len(p.nodes)), nodes: append(sized(&p.scratch.ahead, len(p.nodes))[:0], p.nodes...)}
	p.future = f
	f.profile.Reset()
	if p.Backfill.FirstByLimits {
		f.sure = &p.scratch.sure
		f.sure.Reset()
	}
	if p.usersMatter() {
		f.users = make([][]userStays, len(p.nodes))
	}
	sharing := make([]int, len(p.nodes))
	for i := range p.Running {
		for _, alloc := range p.Running[i].shares().Allocs {
			sharing[alloc.Node]++
		}
	}
	for i := range p.starts {
		for _, alloc := range p.starts[i].Placement.Allocs {
			sharing[alloc.Node]++
		}
	}
	for i := range p.nodes {
		f.add(p.nodes[i].Room(sharing[i]))
	}
	for _, left := range p.licensesLeft() {
		f.add([]int64{left})
	}
	p.addEnds(f)
	if p.room != nil {
		for _, promised := range p.room.licenses {
			f.takeLicenses(promised.job, p.NowMS, both(promised.toMS-p.NowMS))
		}
	}
	for i := range p.suspended.jobs { // they get these back in this pass or soon
		for j := range p.suspended.jobs[i].Back {
			alloc := &p.suspended.jobs[i].Back[j]
			f.book(int(alloc.Node), p.NowMS, both(profile.Forever), p.Nodes[alloc.Node].RoomOf(alloc, false, false))
		}
	}
	return f
}

// licensesLeft is how many of each license no job has.
func (p *pass) licensesLeft() []int64 {
	left := make([]int64, len(p.Licenses))
	for i := range p.Licenses {
		left[i] = int64(p.Licenses[i].Total)
	}
	for i := range p.Running {
		for _, license := range p.Running[i].Licenses {
			left[license.License] -= int64(license.Count)
		}
	}
	for i := range p.starts {
		for _, license := range p.started[i].Licenses {
			left[license.License] -= int64(license.Count)
		}
	}
	return left
}

// ending is when a job gives back what it holds.
type ending struct {
	atMS      int64
	sureMS    int64 // by its time limit
	placement *place.Placement
	exclusive bool
	running   *Running // nil: it starts in this pass
	licenses  []LicenseCount
}

// addEnds enters when jobs end, in the order of their ends, which is the cheapest.
func (p *pass) addEnds(f *future) {
	ends := make([]ending, 0, len(p.Running)+len(p.starts))
	for i := range p.Running {
		r := &p.Running[i]
		ends = append(ends, ending{atMS: p.endMS(r), sureMS: p.sureEndMS(r), placement: &r.Placement, exclusive: r.Exclusive, running: r, licenses: r.Licenses})
	}
	for i := range p.starts {
		job := p.started[i]
		ends = append(ends, ending{atMS: after(p.NowMS, p.spans[i].likely), sureMS: after(p.NowMS, p.spans[i].sure), placement: &p.starts[i].Placement, exclusive: p.alone[i], licenses: job.Licenses})
	}
	order := make([]endOrder, len(ends))
	if f.sure != nil {
		for _, i := range byEnd(order, func(i int) int64 { return ends[i].sureMS }) {
			p.giveEnd(f, f.sure, &ends[i.ending], ends[i.ending].sureMS)
		}
	}
	for _, next := range byEnd(order, func(i int) int64 { return ends[i].atMS }) {
		i := next.ending
		p.giveEnd(f, f.profile, &ends[i], ends[i].atMS)
		for j := range ends[i].placement.Allocs {
			stays := profile.Interval{From: math.MinInt64, To: max(ends[i].atMS, f.ifSure(ends[i].sureMS))}
			f.stay(ends[i].placement.Allocs[j].Node, stays, ends[i].placement)
		}
	}
}

// endOrder is a place in the order of ends.
type endOrder struct {
	atMS   int64
	ending int32
}

// byEnd fills in the order of ends.
func byEnd(order []endOrder, at func(int) int64) []endOrder {
	for i := range order {
		order[i] = endOrder{at(i), int32(i)}
	}
	slices.SortFunc(order, func(a, b endOrder) int {
		return cmp.Or(cmp.Compare(a.atMS, b.atMS), cmp.Compare(a.ending, b.ending))
	})
	return order
}

// giveEnd gives back in a profile what a job holds until a time.
func (p *pass) giveEnd(f *future, to *profile.Profile, end *ending, atMS int64) {
	for j := range end.placement.Allocs {
		alloc := &end.placement.Allocs[j]
		shares := true
		if end.running != nil {
			_, parked := slices.BinarySearch(end.running.Parked, alloc.Node)
			shares = !parked
		}
		if atMS != profile.Forever {
			to.Give(int(alloc.Node), atMS, profile.Forever, p.Nodes[alloc.Node].RoomOf(alloc, end.exclusive, shares))
		}
	}
	for _, license := range end.licenses {
		to.Give(f.license(license.License), atMS, profile.Forever, []int64{int64(license.Count)})
	}
}

func (f *future) license(index int) int { return len(f.has) + index }

// endMS is when a running job gives back what it holds, as far as is known.
func (p *pass) endMS(r *Running) int64 {
	switch {
	case r.Ending:
		return p.endingMS(r)
	case r.Suspended:
		return profile.Forever
	case r.Fills:
		return min(p.NowMS+r.saveMS(), p.limitMS(r))
	case r.PlannedEndMS != 0:
		return p.orSoon(r.PlannedEndMS)
	}
	return p.limitMS(r)
}

// endingMS is when a job gives back what it holds whose end is decided.
func (p *pass) endingMS(r *Running) int64 {
	if r.GoneByMS != 0 {
		return p.overdue(r.GoneByMS)
	}
	return p.overdue(min(cmp.Or(r.LeavesByMS, p.NowMS), p.NowMS+soonMS))
}

// limitMS is when the time of a running job is over.
func (p *pass) limitMS(r *Running) int64 {
	if r.TimeLimitS == Unlimited {
		return profile.Forever
	}
	return p.overdue(r.StartMS + r.PausedMS + int64(r.TimeLimitS)*1000)
}

// orSoon is a time, or soon if it is over.
func (p *pass) orSoon(atMS int64) int64 {
	if atMS > p.NowMS {
		return atMS
	}
	return p.NowMS + soonMS
}

// overdue is when something is over that should be by a time, and if that has passed:
// after as long again.
func (p *pass) overdue(byMS int64) int64 {
	if byMS > p.NowMS {
		return byMS
	}
	return p.NowMS + max(p.NowMS-byMS, soonMS)
}

// after is a time later by a span, which may be Forever.
func after(atMS, spanMS int64) int64 {
	if spanMS >= profile.Forever-atMS {
		return profile.Forever
	}
	return atMS + spanMS
}

// spanMS is for how long a job of the shape is planned.
func (s *Shape) spanMS() int64 {
	switch {
	case s.PlannedS != 0:
		return int64(s.PlannedS) * 1000
	case s.TimeLimitS == Unlimited:
		return profile.Forever
	}
	return int64(s.TimeLimitS) * 1000
}

// enterStart enters a job that starts now, and has what it gets for a time.
func (p *pass) enterStart(job *Job, shape *Shape, placement *place.Placement, span terms) {
	p.started, p.alone, p.spans = append(p.started, job), append(p.alone, shape.Request.Exclusive), append(p.spans, span)
	if p.future != nil {
		p.future.take(p.Nodes, job, shape, placement, p.NowMS, span)
	}
}

// take enters that a job has a placement and its licenses for a time.
func (f *future) take(nodes []place.Node, job *Job, shape *Shape, placement *place.Placement, from int64, span terms) {
	for i := range placement.Allocs {
		alloc := &placement.Allocs[i]
		f.book(int(alloc.Node), from, span, nodes[alloc.Node].RoomOf(alloc, shape.Request.Exclusive, true))
		f.stay(alloc.Node, f.stays(from, span), placement)
	}
	f.takeLicenses(job, from, span)
}

func (f *future) takeLicenses(job *Job, from int64, span terms) {
	for _, license := range job.Licenses {
		f.book(f.license(license.License), from, span, []int64{int64(license.Count)})
	}
}

// drop is the opposite.
func (f *future) drop(nodes []place.Node, job *Job, shape *Shape, placement *place.Placement, from int64, span terms) {
	for i := range placement.Allocs {
		alloc := &placement.Allocs[i]
		f.free(int(alloc.Node), from, span, nodes[alloc.Node].RoomOf(alloc, shape.Request.Exclusive, true))
		if f.users != nil {
			gone := userStays{f.stays(from, span), placement.User, placement.UserOnly}
			at := slices.Index(f.users[alloc.Node], gone)
			f.users[alloc.Node] = slices.Delete(f.users[alloc.Node], at, at+1)
		}
	}
	for _, license := range job.Licenses {
		f.free(f.license(license.License), from, span, []int64{int64(license.Count)})
	}
}

func (f *future) stay(node place.NodeIndex, during profile.Interval, placement *place.Placement) {
	if f.users != nil {
		f.users[node] = append(f.users[node], userStays{during, placement.User, placement.UserOnly})
	}
}

// amongOwn leaves of the times at which there is room on a node those at which no other
// user's job is in the way of a placement for a span.
func (f *future) amongOwn(node place.NodeIndex, placement *place.Placement, span int64, holes []profile.Interval) []profile.Interval {
	if f.users == nil {
		return holes
	}
	for _, other := range f.users[node] {
		if other.user != placement.User && (other.only || placement.UserOnly) {
			holes = leave(holes, profile.Interval{From: before(other.From, span), To: other.To})
		}
	}
	return holes
}

// before is when something must begin, at the earliest, to go on at a time for which it
// lasts a span.
func before(atMS, span int64) int64 {
	if span == profile.Forever || atMS < math.MinInt64+span {
		return math.MinInt64
	}
	return atMS - span + 1
}

// mark notes that something is planned on the nodes of a placement.
func (f *future) mark(placement *place.Placement, setApart func(place.NodeIndex)) {
	for i := range placement.Allocs {
		if node := placement.Allocs[i].Node; !f.has[node] {
			f.has[node] = true
			f.planned = append(f.planned, node)
			setApart(node)
		}
	}
}

// through is a node as it is for a job that has it from one time to another: with what
// is free all the while, and of others' jobs those that are there in that time. Its own
// user's are never in its way.
func (f *future) through(n *place.Node, index place.NodeIndex, from int64, span terms, r *place.Request) place.Node {
	out := n.Within(f.least(int(index), from, span), r.Exclusive)
	if f.users == nil {
		return out
	}
	out.UserOnly, out.Users = false, nil
	for _, other := range f.users[index] {
		if other.From >= f.stays(from, span).To || other.To <= from || other.user == r.User {
			continue
		}
		out.UserOnly = out.UserOnly || other.only
		if at, there := slices.BinarySearch(out.Users, other.user); !there {
			out.Users = slices.Insert(out.Users, at, other.user)
		}
	}
	return out
}

// licensed reports whether a job's licenses are free for a time.
func (f *future) licensed(job *Job, from int64, span terms) bool {
	for _, license := range job.Licenses {
		if !f.fits(f.license(license.License), from, span, []int64{int64(license.Count)}) {
			return false
		}
	}
	return true
}
