package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file says why a job does not start, and what its partition keeps for it then.

// block notes why a job waits in a partition. It returns true if the job waits only
// for resources, so that no other may delay it.
func (p *pass) block(e entry) bool {
	shape, index, t := p.at(e)
	if r := p.rules(t, shape, index); r.Code != ReasonNone {
		if r.Code == ReasonNetwork && p.Waiting[e.job].Image != 0 {
			r.Code = ReasonImageNetwork
		}
		p.wait(e, r)
		return false
	}
	p.feasibility.decideOn(t, shape, index)
	if e.isOwn() && t.verdict.code != ReasonNone {
		return false // its other turns say why
	}
	here := &p.partitions[index]
	if t.verdict.code != ReasonNone {
		if p.opensLater(t, index) {
			p.wait(e, Reason{Code: ReasonClosed, Partition: int32(index)})
		} else {
			p.wait(e, t.verdict.reason(index))
		}
		return false
	}
	if before := cmp.Or(here.blocker, t.blocker, p.firstIn(e, here)); before != 0 {
		p.wait(e, Reason{Code: ReasonPriority, Partition: int32(index), Blocker: before})
		return here.blocker == 0 && p.Backfill.On && !e.isOwn()
	}
	t.blocker, here.first = e.id, cmp.Or(here.first, e.id)
	p.wait(e, p.shortOf(e.id, shape, index))
	if !e.isOwn() {
		return true
	}
	if p.guestsInTheWay(e) {
		p.close(e.id, shape, index)
	} else {
		here.blocker = e.id // only to its owner's jobs
	}
	return false
}

// firstIn is the job that waits first in a partition, if others may start before it.
func (p *pass) firstIn(e entry, here *partitionPass) JobID {
	if !p.Backfill.On || e.isOwn() {
		return 0
	}
	return here.first
}

// rules is the reason for which a partition does not take a job at all.
func (p *pass) rules(t *trial, shape *Shape, index int) Reason {
	if !t.ruled {
		t.ruled, t.rule = true, p.rule(shape, index)
	}
	return t.rule
}

func (p *pass) rule(shape *Shape, index int) Reason {
	partition := &p.Partitions[index]
	r := Reason{Partition: int32(index)}
	switch {
	case !partition.Up:
		r.Code = ReasonPartitionDown
	case shape.Root && !partition.RootAllowed:
		r.Code = ReasonAccountNotAllowed
	case partition.PrivateOnly && !shape.PrivateNetwork:
		r.Code = ReasonNetwork
	case shape.TimeLimitS > partition.MaxTimeS:
		r.Code = ReasonPartitionTimeLimit
		r.Lack = &Lack{Short: place.Shortage{Need: uint64(shape.TimeLimitS), Have: uint64(partition.MaxTimeS)}}
	}
	return r
}

// shortOf is why a job that could run on the idle partition does not fit now:
// too little is free, or what is free is kept for a job before it.
func (p *pass) shortOf(job JobID, shape *Shape, index int) Reason {
	all := p.Partitions[index].Nodes
	r := Reason{Code: ReasonResources, Partition: int32(index)}
	placement, short, fits := place.Fit(p.nodes, all, shape.Request)
	r.Lack = &Lack{Short: short}
	if fits {
		r.Code = ReasonPriority
		for _, alloc := range placement.Allocs {
			if by := p.closedBy[alloc.Node]; by != job {
				r.Blocker = cmp.Or(r.Blocker, by)
			}
		}
		r.Blocker = cmp.Or(r.Blocker, p.plannedOn(placement, job), p.continuesOn(placement))
	}
	return r
}

// continuesOn is a suspended job that gets back what it had on nodes of a placement.
func (p *pass) continuesOn(placement place.Placement) JobID {
	for i := range p.Running {
		if r := &p.Running[i]; r.Suspended && r.Continues && onNodes(place.Placement{Allocs: r.Back}, placement) > 0 {
			return r.ID
		}
	}
	return 0
}

// close keeps nodes for a job that waits for resources: those that it names, if
// it names all that it needs; those that can restore it, if it resumes from an
// image; and otherwise the whole partition, which takes no more jobs in this pass.
// So nothing that comes later delays it, in any partition that shares its nodes.
// This is what Slurm's main scheduler does.
func (p *pass) close(job JobID, shape *Shape, index int) {
	named := shape.Request.RequiredNodes
	low, _ := shape.Request.NodeBounds()
	onlyNamed := len(named) > 0 && uint64(len(named)) >= uint64(low)
	if !onlyNamed && shape.Request.AmongNodes != nil {
		named, onlyNamed = shape.Request.AmongNodes, true
	}
	if !onlyNamed {
		p.partitions[index].blocker = job
	}
	for _, node := range p.Partitions[index].Nodes {
		if onlyNamed {
			if _, is := slices.BinarySearch(named, p.nodes[node].Name); !is {
				continue
			}
		}
		p.closedBy[node] = cmp.Or(p.closedBy[node], job)
	}
	p.closings++
}

// open is the nodes of a partition that are not kept for a job.
func (p *pass) open(index int) []place.NodeIndex {
	here := &p.partitions[index]
	if here.closings == p.closings {
		return here.open
	}
	var open []place.NodeIndex
	for _, node := range here.open {
		if p.closedBy[node] == 0 {
			open = append(open, node)
		}
	}
	here.open, here.closings, here.index = open, p.closings, nil
	return open
}

// wait notes a reason. Of the reasons in several partitions the most hopeful
// one counts.
func (p *pass) wait(e entry, r Reason) {
	r.Job = e.id
	old := p.reasons[e.job].Code
	if old == ReasonNone || r.Code.rank() > old.rank() {
		p.reasons[e.job] = r
	}
}

// allReasons is the reasons of the jobs that wait, ascending by job.
func (p *pass) allReasons() []Reason {
	kept := 0
	for i := range p.reasons {
		if p.reasons[i].Code == ReasonNone {
			continue
		}
		if kept != i {
			p.reasons[kept] = p.reasons[i]
		}
		kept++
	}
	clear(p.reasons[kept:])
	reasons := p.reasons[:kept]
	if !p.ascending {
		slices.SortFunc(reasons, func(a, b Reason) int { return cmp.Compare(a.Job, b.Job) })
	}
	return reasons
}
