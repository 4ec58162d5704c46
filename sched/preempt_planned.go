package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// This file keeps the search for room to what starts keep to: planned starts of jobs that
// had their turns before. A job that would run into one could not start in the room that
// its victims made, and others would leave for it again and again.
//
// Between two planned starts what is free on a node only grows. So it is enough to look at
// the moments at which something planned begins there: what is free once the victims are
// gone, and what jobs give back that end by then, has to hold all that is planned at that
// moment and the job. Planned starts of jobs behind it give way to its promise.
//
// Nor is what comes free when somebody leaves, and a suspended job gets back.

// besides is what others leave of the nodes to one job that room is searched for.
type besides struct {
	pass    *pass
	shape   *Shape
	leaveMS int64 // how long its victims take to leave, at most
	on      map[place.NodeIndex]*plannedOn
	before  []place.Node // what narrow replaced
	which   []place.NodeIndex
}

// plannedOn is what happens on one node while the job would run.
type plannedOn struct {
	moments []int64
	stays   []roomStay
	ends    []roomEnd
}

type roomStay struct {
	profile.Interval
	room     place.Room
	user     uint32
	userOnly bool
}

type roomEnd struct {
	running int
	atMS    int64
	room    place.Room
}

// besides looks at what others leave to a job that starts once its victims have left,
// which takes them a while.
func (p *pass) besides(shape *Shape, leaveMS int64) *besides {
	p.room.notePlans(p)
	return &besides{pass: p, shape: shape, leaveMS: leaveMS, on: map[place.NodeIndex]*plannedOn{}}
}

// notePlans has the room know on which nodes something is planned, as far as it does not
// yet.
func (r *room) notePlans(p *pass) {
	if r.plans == nil && len(p.plans) > 0 {
		r.plans = make([][]int32, len(p.nodes))
	}
	for ; r.notedPlans < len(p.plans); r.notedPlans++ {
		for _, alloc := range p.plans[r.notedPlans].Placement.Allocs {
			r.plans[alloc.Node] = append(r.plans[alloc.Node], int32(r.notedPlans))
		}
	}
}

// narrow has nodes be as they are for the job, and returns how many it looked at closely.
// widen is the opposite. absent says of running jobs that they leave a node.
func (b *besides) narrow(nodes []place.Node, on []place.NodeIndex, absent func(int, place.NodeIndex) bool) int {
	b.before, b.which = b.before[:0], b.which[:0]
	for _, node := range on {
		withheld, planned := b.pass.room.withheld[node], b.plannedOn(node)
		if len(withheld) == 0 && planned == nil {
			continue
		}
		b.before, b.which = append(b.before, nodes[node]), append(b.which, node)
		place.TakeBack(nodes, withheld)
		if planned != nil {
			nodes[node] = b.left(planned, node, &nodes[node], absent)
		}
	}
	return len(b.which)
}

func (b *besides) widen(nodes []place.Node) {
	for i, node := range b.which {
		nodes[node] = b.before[i]
	}
}

// plannedOn is what is planned on a node; nil = nothing.
func (b *besides) plannedOn(node place.NodeIndex) *plannedOn {
	p := b.pass
	if p.room.notedPlans == 0 || len(p.room.plans[node]) == 0 {
		return nil
	}
	on, known := b.on[node]
	if known {
		return on
	}
	on = &plannedOn{}
	until := after(after(p.NowMS, b.leaveMS), b.shape.spanMS())
	for _, at := range p.room.plans[node] {
		of := &p.plans[at]
		alloc := of.Placement.Allocs[allocOn(of.Placement, node)]
		if of.StartMS >= until {
			continue
		}
		on.moments = append(on.moments, of.StartMS)
		on.stays = append(on.stays, roomStay{
			profile.Interval{From: of.StartMS, To: after(of.StartMS, of.shape.spanMS())},
			p.Nodes[node].RoomOf(&alloc, of.shape.Request.Exclusive, true), of.Placement.User, of.Placement.UserOnly,
		})
	}
	if len(on.moments) == 0 {
		on = nil
	} else {
		b.noteEnds(on, node)
	}
	b.on[node] = on
	return on
}

// noteEnds notes when the running jobs on a node end. What starts in this pass is taken to
// stay; the next pass knows its end.
func (b *besides) noteEnds(on *plannedOn, node place.NodeIndex) {
	p := b.pass
	for _, job := range p.room.on[node] {
		if job.running < 0 {
			continue
		}
		r := &p.Running[job.running]
		if end := p.endMS(r); end != profile.Forever {
			alloc := r.Placement.Allocs[allocOn(r.Placement, node)]
			on.ends = append(on.ends, roomEnd{job.running, end, p.Nodes[node].RoomOf(&alloc, r.Exclusive, true)})
		}
	}
}

// left is a node with what planned starts leave of it.
func (b *besides) left(on *plannedOn, node place.NodeIndex, n *place.Node, absent func(int, place.NodeIndex) bool) place.Node {
	r := &b.shape.Request
	sharing := 0
	for _, job := range b.pass.room.on[node] {
		if job.running < 0 || !absent(job.running, node) {
			sharing++
		}
	}
	free := n.Room(sharing)
	least := slices.Clone(free)
	for _, moment := range on.moments {
		for kind, amount := range on.at(moment, free, node, absent) {
			least[kind] = min(least[kind], amount)
		}
	}
	for i := range on.stays {
		if stay := &on.stays[i]; stay.user != r.User && (stay.userOnly || r.ExclusiveUser) {
			least[place.RoomJobs] = 0
		}
	}
	return n.Within(least, r.Exclusive)
}

// at is what is free at a moment at which something planned begins, of what is free now.
func (on *plannedOn) at(moment int64, free place.Room, node place.NodeIndex, absent func(int, place.NodeIndex) bool) place.Room {
	then := slices.Clone(free)
	for i := range on.ends {
		if end := &on.ends[i]; end.atMS <= moment && !absent(end.running, node) {
			then.Add(end.room)
		}
	}
	for i := range on.stays {
		if stay := &on.stays[i]; stay.From <= moment && moment < stay.To {
			then.Sub(stay.room)
		}
	}
	return then
}

// outlasts reports whether a planned start needs what a job gives back at its end, which
// it would keep beyond that if it stood still.
func (b *besides) outlasts(at int) bool {
	r := &b.pass.Running[at]
	end := b.pass.endMS(r)
	absent := func(other int, node place.NodeIndex) bool { return other == at || b.pass.room.leaves(other, node) }
	return slices.ContainsFunc(r.Placement.Allocs, func(alloc place.Alloc) bool {
		on := b.plannedOn(alloc.Node)
		if on == nil {
			return false
		}
		free := b.pass.room.nodes[alloc.Node].Room(0)
		return slices.ContainsFunc(on.moments, func(moment int64) bool {
			return moment >= end && slices.Min(on.at(moment, free, alloc.Node, absent)) < 0
		})
	})
}

// leaves reports whether a running job makes room on a node already.
func (r *room) leaves(at int, node place.NodeIndex) bool {
	return r.leaving[at] || r.gone.from(at, node)
}

// nobody leaves.
func nobody(int, place.NodeIndex) bool { return false }

// fitBeside places a job on nodes beside what is planned. absent are the jobs that are
// not on the nodes any more.
func (p *pass) fitBeside(nodes []place.Node, on []place.NodeIndex, shape *Shape, absent func(int, place.NodeIndex) bool) (place.Placement, bool) {
	beside := p.besides(shape, 0)
	p.room.steps += beside.narrow(nodes, on, absent)
	placement, _, fits := place.Fit(nodes, on, shape.Request)
	beside.widen(nodes)
	return placement, fits
}

// promisedLicenses are those of a job that was promised nodes.
type promisedLicenses struct {
	job  *Job
	toMS int64
}

// promiseLicenses keeps licenses for a job until it would be over.
func (p *pass) promiseLicenses(job *Job, toMS int64) {
	if len(job.Licenses) == 0 {
		return
	}
	p.room.licenses = append(p.room.licenses, promisedLicenses{job, toMS})
	if p.future != nil {
		p.future.takeLicenses(job, p.NowMS, both(toMS-p.NowMS))
	}
}

// goneMS is by when all have left the nodes of a placement that leave, as far as is known.
func (p *pass) goneMS(placement place.Placement) int64 {
	gone := p.NowMS + soonMS
	for i := range p.Running {
		r := &p.Running[i]
		if !p.room.leaving[i] || onNodes(r.Placement, placement) == 0 {
			continue
		}
		if gone = max(gone, r.LeavesByMS, r.GoneByMS); !r.Ending && !r.Suspended { // chosen in this pass
			gone = max(gone, p.NowMS+p.room.leaveMS[i])
		}
	}
	return gone
}
