package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// This file finds nodes for a job on what is free now. An index of the nodes of each
// partition knows which of them are alike, so that a job looks at a few and not at all.

// fitNow places a job on what is free, and stays so for a time.
func (p *pass) fitNow(e entry, index int, shape *Shape, span terms) (place.Placement, bool) {
	candidates, apart := p.candidates(e, index, shape, span)
	if len(candidates) == 0 {
		return place.Placement{}, false
	}
	if len(apart) == 0 {
		return place.Find(p.nodes, candidates, shape.Request)
	}
	before := p.narrowed[:0]
	for _, node := range apart {
		before = append(before, p.nodes[node])
		p.nodes[node] = p.future.through(&before[len(before)-1], node, p.NowMS, span, &shape.Request)
	}
	placement, fits := place.Find(p.nodes, candidates, shape.Request)
	for i, node := range apart {
		p.nodes[node] = before[i]
	}
	p.narrowed = before
	return placement, fits
}

// candidates are nodes among which a request fits as among all that are open to a job,
// and those of them, or more, on which something is planned.
func (p *pass) candidates(e entry, index int, shape *Shape, span terms) (candidates, planned []place.NodeIndex) {
	r := &shape.Request
	if x := p.indexOf(e, index); x != nil && x.Narrows(r) {
		least := r.Least()
		return x.Narrow(r, func(node place.NodeIndex) bool {
			if r.Exclusive {
				return true // of a node without jobs it gets what there is
			}
			p.roomFor = p.nodes[node].RoomFor(r, &least, p.roomFor)
			return p.future.fits(int(node), p.NowMS, span, p.roomFor)
		})
	}
	if p.future != nil {
		planned = p.future.planned
	}
	return p.openTo(e, index), planned
}

// indexOf is the index of the nodes that are open to a job in a partition; nil if there
// is none, because some are kept for this very job.
func (p *pass) indexOf(e entry, index int) *place.Index {
	if p.closings > 0 && p.Waiting[e.job].Owner != 0 && !e.isOwn() {
		return nil
	}
	open, here := p.open(index), &p.partitions[index]
	if here.index == nil {
		if p.kinds == nil {
			p.kinds = place.NewKinds(p.nodes)
		}
		here.index = p.kinds.NewIndex(open)
		if p.future != nil {
			for _, node := range p.future.planned {
				here.index.SetApart(node)
			}
		}
	}
	return here.index
}

// noteTaken has the indices follow what was taken of some nodes.
func (p *pass) noteTaken(allocs []place.Alloc) {
	if p.kinds == nil {
		return
	}
	for i := range allocs {
		changed := p.kinds.Change(allocs[i].Node)
		for at := range p.partitions {
			if x := p.partitions[at].index; x != nil {
				x.Move(changed)
			}
		}
	}
}

// setApart has a node be looked at by itself from now on, because something is planned on
// it.
func (p *pass) setApart(node place.NodeIndex) {
	for at := range p.partitions {
		if x := p.partitions[at].index; x != nil {
			x.SetApart(node)
		}
	}
}
