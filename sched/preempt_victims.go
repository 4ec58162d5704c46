package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// victim is a running job that may be preempted.
type victim struct {
	id    JobID
	at    int // position in Running
	mode  PreemptMode
	own   bool // by a job of its node's owner
	lost  int64
	cost  int64 // with what it lost before
	nodes int
	// How long it takes to leave, at most.
	leaveMS int64

	place.Placement // of one that is parked only the part on the owner's nodes
	exclusive       bool
	parkedOn        []place.NodeIndex
}

// option is one set of victims.
type option struct {
	excess    int // nodes that are cleared and not used, once for each victim
	cost      int64
	ids       []JobID // ascending
	victims   []victim
	placement place.Placement
}

func compareOptions(a, b *option) int {
	return cmp.Or(
		cmp.Compare(a.excess, b.excess),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(len(a.ids), len(b.ids)),
		slices.Compare(a.ids, b.ids),
	)
}

// victimSearch is the search for the victims of one job.
type victimSearch struct {
	request    *place.Request
	nodes      []place.Node // as they will be if nobody is preempted
	work       []place.Node // the same, but while a set is tried
	on         occupants
	gone       absent // by position in Running
	still      []bool // likewise: it stands still, on all its nodes
	leaving    []bool // likewise: it leaves whatever is chosen
	beside     *besides
	candidates []place.NodeIndex
	suits      []bool   // by node: it is one of the candidates, and of use as it is
	victims    []victim // singles before gangs, the cheapest first
	steps      int
	plans      int // of the pass, when it was made
	best, next *option
}

// victimSearchFor is the search for a job in a partition. The search for the
// last job is used again for one of the same kind, which differs from it only
// in what was promised since.
func (p *pass) victimSearchFor(e entry, own bool) *victimSearch {
	shape, index, _ := p.at(e)
	kind, qos := p.kind(e), p.Waiting[e.job].QOS
	r := p.room
	if r.last != nil && r.last.plans == len(p.plans) && kind != 0 && r.lastKind == kind && r.lastPartition == index && r.lastQOS == qos && r.lastOwn == own {
		r.last.refresh(r)
	} else {
		r.last = p.newVictimSearch(e, &shape.Request, p.roomIn(e, index), own)
	}
	r.lastKind, r.lastPartition, r.lastQOS, r.lastOwn, r.touched = kind, index, qos, own, nil
	return r.last
}

// refresh accounts for what was given away, and which victims were chosen,
// since.
func (g *victimSearch) refresh(r *room) {
	g.best, g.next, g.steps = nil, nil, 0
	g.gone = r.gone.clone()
	g.victims = slices.DeleteFunc(g.victims, func(v victim) bool { return r.leaving[v.at] })
	for _, node := range r.touched {
		g.work[node] = g.nodes[node]
		g.suits[node] = place.Suits(g.nodes[node], *g.request)
	}
}

// newVictimSearch lists the victims on some nodes, and leaves out nodes that are of no
// use even without them.
func (p *pass) newVictimSearch(e entry, request *place.Request, nodes []place.NodeIndex, own bool) *victimSearch {
	g := &victimSearch{
		request: request, nodes: p.room.nodes, work: slices.Clone(p.room.nodes), on: p.room.on, gone: p.room.gone.clone(),
		still: make([]bool, len(p.Running)), leaving: p.room.leaving, plans: len(p.plans),
	}
	shape, index, _ := p.at(e)
	here := make([]bool, len(g.nodes))
	for _, node := range nodes {
		here[node] = g.nodes[node].Available
	}
	whenever := p.besides(shape, profile.Forever)
	for i := range p.Running {
		if v, may := p.victim(e, index, i, own); may && v.isOn(here) && !(v.stands() && whenever.outlasts(i)) {
			g.victims = append(g.victims, v)
		}
	}
	slices.SortFunc(g.victims, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.cost, b.cost), cmp.Compare(a.id, b.id))
	})
	g.release(allOf(g.victims))
	for _, node := range nodes {
		if here[node] && place.Suits(g.work[node], *request) {
			g.candidates = append(g.candidates, node)
		}
	}
	g.undo(allOf(g.victims))
	clear(here)
	g.suits = make([]bool, len(g.nodes))
	for _, node := range g.candidates {
		here[node], g.suits[node] = true, place.Suits(g.nodes[node], *request)
	}
	g.victims = slices.DeleteFunc(g.victims, func(v victim) bool { return !v.isOn(here) })
	g.steps += len(nodes)
	leaveMS := g.leaveMS()
	g.beside = p.besides(shape, leaveMS)
	g.candidates = slices.DeleteFunc(g.candidates, func(node place.NodeIndex) bool { return shape.closedAt(node, p.NowMS+leaveMS) != nil })
	return g
}

// leaveMS is how long victims take to leave, at most.
func (g *victimSearch) leaveMS() int64 {
	longest := int64(0)
	for i := range g.victims {
		longest = max(longest, g.victims[i].leaveMS)
	}
	return longest
}

// victim is a running job as a victim of another, if it may be preempted now.
// If it may be later, the next pass is due then.
func (p *pass) victim(e entry, index, at int, own bool) (victim, bool) {
	running := &p.Running[at]
	if p.room.leaving[at] || running.Ending || running.Suspended {
		return victim{}, false
	}
	if own && p.isGuest(running, p.Waiting[e.job].Owner) {
		return p.guest(at, p.Waiting[e.job].Owner)
	}
	mode := p.room.rules.mode(&p.Waiting[e.job], index, running)
	if mode == PreemptOff {
		return victim{}, false
	}
	if from := p.PreemptEligibleMS(running); from > p.NowMS {
		p.nextMS = sooner(p.nextMS, from)
		return victim{}, false
	}
	lost := p.room.rules.lost(running, mode)
	return victim{
		id: running.ID, at: at, mode: mode, lost: lost, cost: plus(lost, running.LostGPUMS),
		nodes: len(running.Placement.Allocs), Placement: running.Placement, exclusive: running.Exclusive,
		leaveMS: p.room.rules.leaveMS(running, mode),
	}, true
}

// guest is a running job as the victim of a job of the owner of its nodes.
func (p *pass) guest(at int, owner int32) (victim, bool) {
	running := &p.Running[at]
	if from := p.GuestEligibleMS(running); from > p.NowMS {
		p.nextMS = sooner(p.nextMS, from)
		return victim{}, false
	}
	v := victim{
		id: running.ID, at: at, mode: guestMode(running), own: true,
		nodes: len(running.Placement.Allocs), Placement: running.Placement, exclusive: running.Exclusive,
	}
	v.leaveMS = p.room.rules.leaveMS(running, v.mode)
	if v.mode == PreemptPark {
		v.Placement = p.guestPart(running, owner)
		v.parkedOn = nodesOf(v.Placement)
	}
	lost, counts := p.room.rules.guestLost(running, v.mode)
	v.lost, v.cost = lost, plus(counts, running.LostGPUMS)
	if running.OverBorrowed {
		v.cost = CountsOverBorrowed(v.cost)
	}
	return v, true
}

// stands reports whether it keeps something and stands still.
func (v *victim) stands() bool { return v.mode == PreemptSuspend || v.mode == PreemptPark }

// parking is what comes free of a victim beside its CPUs while it stands still.
func (v *victim) parking() []place.Alloc {
	if v.mode != PreemptPark {
		return nil
	}
	return v.Allocs
}

func (v *victim) isOn(here []bool) bool {
	return slices.ContainsFunc(v.Allocs, func(alloc place.Alloc) bool { return here[alloc.Node] })
}

// try says where the job fits if a set of victims is gone.
func (g *victimSearch) try(set []int, on []place.NodeIndex) (place.Placement, bool) {
	on = g.narrow(set, on)
	g.release(set)
	placement, fits := g.fit(on)
	g.undo(set)
	return placement, fits
}

func (g *victimSearch) fit(on []place.NodeIndex) (place.Placement, bool) {
	g.steps += len(on) + tryCost + tryCost*g.beside.narrow(g.work, on, g.absent)
	placement, _, fits := place.Fit(g.work, on, *g.request)
	g.beside.widen(g.work)
	return placement, fits
}

// absent reports whether a job makes room on a node.
func (g *victimSearch) absent(at int, node place.NodeIndex) bool {
	return g.leaving[at] || g.still[at] || g.gone.from(at, node)
}

// narrow leaves out nodes that are of no use, whichever jobs of the set are
// gone.
func (g *victimSearch) narrow(set []int, on []place.NodeIndex) []place.NodeIndex {
	if len(on) == 1 {
		return on
	}
	touched := make([]bool, len(g.nodes))
	for _, v := range set {
		for i := range g.victims[v].Allocs {
			touched[g.victims[v].Allocs[i].Node] = true
		}
	}
	var narrow []place.NodeIndex
	for _, node := range on {
		if touched[node] || g.suits[node] {
			narrow = append(narrow, node)
		}
	}
	return narrow
}

func (g *victimSearch) release(set []int) {
	for _, v := range set {
		victim := &g.victims[v]
		switch victim.mode {
		case PreemptSuspend: // it keeps the rest
			g.still[victim.at] = true
			place.ReleaseCPUs(g.work, victim.Allocs)
		case PreemptPark: // it keeps its memory
			g.still[victim.at] = true
			g.gone.park(victim.at, victim.parkedOn)
			place.Park(g.work, victim.Placement, g.on.without(&g.gone))
		default:
			g.gone.gone[victim.at] = true
			place.Release(g.work, victim.Placement, g.on.without(&g.gone))
		}
	}
}

// putBack is the opposite of release, for one victim.
func (g *victimSearch) putBack(v int) {
	victim := &g.victims[v]
	g.gone.back(victim.at)
	g.still[victim.at] = false
	switch victim.mode {
	case PreemptSuspend:
		place.TakeCPUs(g.work, victim.Allocs)
	case PreemptPark:
		place.Unpark(g.work, victim.Placement, victim.exclusive)
	default:
		place.Take(g.work, victim.Placement, victim.exclusive)
	}
}

func (g *victimSearch) undo(set []int) {
	for _, v := range set {
		g.gone.back(g.victims[v].at)
		g.still[g.victims[v].at] = false
		for i := range g.victims[v].Allocs {
			node := g.victims[v].Allocs[i].Node
			g.work[node] = g.nodes[node]
		}
	}
}
