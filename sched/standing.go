package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// Standing is what is in the way of a waiting job. A plan gives one reason for each job;
// this is all there is besides.
type Standing struct {
	// Kept is what keeps it from starting whatever is free: a hold, its begin time, jobs
	// that it waits for. Then all else is empty; ReasonNone = nothing does.
	Kept ReasonCode
	// Ahead are the jobs that have their turn before it and compete for nodes that it
	// could use, in the order of their turns. Only a lack of resources keeps them from
	// starting.
	Ahead []JobID
	// Short says, for each of its partitions, why it does not fit into what is free there,
	// whoever goes first; the code is ReasonNone where it would fit.
	Short []Reason
	// Holders are the running jobs on nodes that it could use, those first that end first.
	Holders []Holder
}

// Holder is a job that runs on some nodes.
type Holder struct {
	Job   JobID
	Nodes []place.NodeIndex // ascending
	// EndMS is until when it may run; 0 = nobody knows.
	EndMS int64
}

// StandingOf returns what is in the way of a job; false if it does not wait in this
// snapshot. It costs as much as putting the jobs in order.
func StandingOf(s Snapshot, id JobID) (Standing, bool) {
	s, _ = expandShapes(s)
	s = withOwnParts(s)
	at := slices.IndexFunc(s.Waiting, func(job Job) bool { return job.ID == id })
	if at < 0 {
		return Standing{}, false
	}
	p := newPass(&s, Memo{})
	suits := p.suiting(at)
	if kept, eligible := p.eligible(&s.Waiting[at]); !eligible {
		return Standing{Kept: kept}, true
	}
	return Standing{Ahead: p.ahead(at, suits), Short: p.shortages(at), Holders: p.holders(suits)}, true
}

// suiting are the nodes that could be among those of a job if they were idle, by node.
func (p *pass) suiting(at int) []bool {
	suits := make([]bool, len(p.nodes))
	for choice := range p.trials[p.Waiting[at].Shape] {
		shape, index, _ := p.at(entry{job: int32(at), choice: int32(choice), shape: int32(p.Waiting[at].Shape)})
		for _, node := range p.Partitions[index].Nodes {
			suits[node] = suits[node] || place.Suits(place.Idle(p.nodes[node], false), shape.Request)
		}
	}
	return suits
}

// ahead are the jobs that compete with a job and have their turn before its first one.
func (p *pass) ahead(at int, suits []bool) []JobID {
	competes := make([]bool, len(p.Partitions))
	for i := range p.Partitions {
		competes[i] = slices.ContainsFunc(p.Partitions[i].Nodes, func(node place.NodeIndex) bool { return suits[node] })
	}
	var ahead []JobID
	known := map[JobID]bool{}
	for _, e := range p.order(newPriorities(p.Snapshot)) {
		if int(e.job) == at {
			break
		}
		shape, index, t := p.at(e)
		if known[e.id] || !competes[index] || p.rules(t, shape, index).Code != ReasonNone {
			continue
		}
		if p.feasibility.decideOn(t, shape, index); t.verdict.code == ReasonNone {
			known[e.id] = true
			ahead = append(ahead, e.id)
		}
	}
	return ahead
}

// shortages says for each partition of a job why it does not fit there now.
func (p *pass) shortages(at int) []Reason {
	var short []Reason
	for choice := range p.trials[p.Waiting[at].Shape] {
		shape, index, t := p.at(entry{job: int32(at), choice: int32(choice), shape: int32(p.Waiting[at].Shape)})
		if p.Partitions[index].isPart() {
			continue
		}
		p.feasibility.decideOn(t, shape, index)
		r := Reason{Partition: int32(index)}
		switch rule := p.rules(t, shape, index); {
		case rule.Code != ReasonNone:
			r = rule
		case t.verdict.code != ReasonNone:
			r = t.verdict.reason(index)
		default:
			if _, lack, fits := place.Fit(p.nodes, p.Partitions[index].Nodes, shape.Request); !fits {
				r.Code, r.Lack = ReasonResources, &Lack{Short: lack}
			}
		}
		r.Job = p.Waiting[at].ID
		short = append(short, r)
	}
	return short
}

// holders are the jobs that run on some of these nodes.
func (p *pass) holders(suits []bool) []Holder {
	var holders []Holder
	for i := range p.Running {
		r := &p.Running[i]
		h := Holder{Job: r.ID, EndMS: p.endMS(r)}
		for _, alloc := range r.Placement.Allocs {
			if suits[alloc.Node] && !slices.Contains(h.Nodes, alloc.Node) {
				h.Nodes = append(h.Nodes, alloc.Node)
			}
		}
		if len(h.Nodes) > 0 {
			holders = append(holders, h)
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Or(cmp.Compare(a.EndMS, b.EndMS), cmp.Compare(a.Job, b.Job)) })
	for i := range holders {
		if holders[i].EndMS == profile.Forever {
			holders[i].EndMS = 0
		}
	}
	return holders
}
