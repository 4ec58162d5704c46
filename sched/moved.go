package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file says why a planned start moved to a later time. Nothing else moves it.

// Moved is why a job does not start when it was planned to. The zero Moved: it was not
// planned to start sooner than it is.
type Moved struct {
	FromMS int64 // when it was planned to start
	By     MovedBy
	Job    JobID  // that goes first, or stays; 0 = it is about none
	Node   string // that is lacking, or on which Job stays; "" = it is about none
}

// MovedBy is the kind of cause.
type MovedBy uint8

// What moves planned starts.
const (
	MovedByNothing  MovedBy = iota
	MovedByPriority         // Job goes first now
	MovedByJob              // Job is still there after its time, or has got more
	MovedByNode             // Node is not available, or has less than it had
	MovedByReservation
	MovedByOwner  // of Node, who has taken it back
	MovedByHabit  // of the owner of Node
	MovedByLimits // by the time limits of jobs it cannot start then: see sure.go
	MovedByPolicy // fewer starts are planned, or there are fewer licenses
)

// note keeps the first cause for a job.
func (p *promised) note(job JobID, why Moved) {
	if _, known := p.why[job]; !known {
		p.why[job] = why
	}
}

// whyLater is why what was planned does not fit any more.
func (p *pass) whyLater(of *plan, wasMS int64) Moved {
	_, index, _ := p.at(of.entry)
	for i := range of.Placement.Allocs {
		alloc := &of.Placement.Allocs[i]
		node := &p.nodes[alloc.Node]
		if by := p.closedBy[alloc.Node]; by != 0 && by != of.Job {
			return Moved{By: MovedByPriority, Job: by}
		}
		if _, is := slices.BinarySearch(p.Partitions[index].Nodes, alloc.Node); !is || !of.shape.Request.Names(node) || !node.Has(alloc) {
			return Moved{By: MovedByNode, Node: node.Name}
		}
		if closed := of.shape.closedAt(alloc.Node, wasMS); closed != nil {
			return Moved{By: closed.Why.moves(), Node: node.Name}
		}
	}
	if job, node := p.staysOn(of, wasMS); job != 0 {
		return Moved{By: MovedByJob, Job: job, Node: node}
	}
	if why, is := p.pushedBy(of); is {
		return why
	}
	for i := range of.Placement.Allocs {
		alloc := &of.Placement.Allocs[i]
		if p.opens(int(alloc.Node), wasMS, of, p.nodes[alloc.Node].RoomOf(alloc, of.shape.Request.Exclusive, true)) != wasMS {
			return Moved{By: MovedByNode, Node: p.nodes[alloc.Node].Name}
		}
	}
	return Moved{By: MovedByPolicy}
}

func (c ClosedBy) moves() MovedBy {
	return [...]MovedBy{ClosedByReservation: MovedByReservation, ClosedByOwner: MovedByOwner, ClosedByHabit: MovedByHabit}[c]
}

// staysOn is a running job that has something which a job was planned to get, at that time:
// first one whose time is over.
func (p *pass) staysOn(of *plan, atMS int64) (job JobID, node string) {
	over := false
	for i := range p.Running {
		r := &p.Running[i]
		at := slices.IndexFunc(r.Placement.Allocs, func(a place.Alloc) bool {
			return onNodes(place.Placement{Allocs: []place.Alloc{a}}, of.Placement) > 0
		})
		if at < 0 && !sharesLicense(r.Licenses, p.Waiting[of.entry.job].Licenses) || p.endMS(r) <= atMS {
			continue
		}
		late := r.Ending || r.TimeLimitS != Unlimited && p.endMS(r) <= p.NowMS+soonMS
		if job != 0 && (over || !late) {
			continue
		}
		if job, node, over = r.ID, "", late; at >= 0 {
			node = p.Nodes[r.Placement.Allocs[at].Node].Name
		}
	}
	return job, node
}

// pushedBy is the cause where a start that was planned before this one moved, and now is in
// its way.
func (p *pass) pushedBy(of *plan) (Moved, bool) {
	for _, other := range p.promised.entered {
		why, moved := p.promised.why[other.Job]
		if moved && (onNodes(other.Placement, of.Placement) > 0 || sharesLicense(p.Waiting[other.entry.job].Licenses, p.Waiting[of.entry.job].Licenses)) {
			return why, true
		}
	}
	return Moved{}, false
}

func sharesLicense(a, b []LicenseCount) bool {
	return slices.ContainsFunc(a, func(x LicenseCount) bool {
		return slices.ContainsFunc(b, func(y LicenseCount) bool { return x.License == y.License })
	})
}

// firstStarts are the first planned start of each job.
func firstStarts(planned []Planned) map[JobID]*Planned {
	first := make(map[JobID]*Planned, len(planned))
	for i := range planned {
		if other := first[planned[i].Job]; other == nil || planned[i].StartMS < other.StartMS {
			first[planned[i].Job] = &planned[i]
		}
	}
	return first
}

// noteMoves fills in what has moved since the last plan, or before.
func (p *pass) noteMoves(now, last *Promises) {
	if len(last.Planned)+len(last.Lost) == 0 {
		return
	}
	before, planned, lost := firstStarts(last.Planned), firstStarts(now.Planned), map[JobID]Moved{}
	for _, l := range last.Lost {
		lost[l.Job] = l.Moved
	}
	for i := range p.starts {
		delete(before, p.starts[i].Job) // a task of an array has started as it was planned
	}
	for job, old := range before {
		if lost[job] = old.Moved; planned[job] == nil || planned[job].StartMS > old.StartMS {
			lost[job] = p.cause(job, old.StartMS)
		}
	}
	for job, next := range planned {
		if moved := lost[job]; moved.FromMS < next.StartMS {
			next.Moved = moved
		}
		delete(lost, job)
	}
	if len(lost) == 0 {
		return
	}
	for id, moved := range lost {
		at := p.waiting(id)
		if at < 0 || moved.FromMS == 0 || p.left[at] == 0 {
			continue
		}
		// What keeps a job from waiting for its turn is its reason.
		if code := p.reasons[at].Code; code == ReasonPriority || code == ReasonResources {
			now.Lost = append(now.Lost, Lost{id, moved})
		}
	}
	slices.SortFunc(now.Lost, func(a, b Lost) int { return cmp.Compare(a.Job, b.Job) })
}

// cause is why a job does not start as it was planned.
func (p *pass) cause(job JobID, fromMS int64) Moved {
	why, known := p.promised.why[job]
	if !known {
		why = Moved{By: cmp.Or(p.promised.voidBy.By, MovedByPolicy), Job: p.promised.voidBy.Job}
		if why.By == MovedByPolicy && p.Backfill.FirstByLimits {
			why.By = MovedByLimits
		}
	}
	why.FromMS = fromMS
	return why
}
