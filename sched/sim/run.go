package sim

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// run is what is known of a job while it has nodes.
type run struct {
	placement place.Placement // what it was given
	startS    int64
	workS     int64 // how long it has to run here
	plannedS  int64 // and for how long it is planned
	limitS    int64 // its limit, at which it ends; less than what it asked for if it started sooner by that
	workedS   int64 // how long it had run here at sinceS, since when it runs
	sinceS    int64
	turn      uint32 // changes with each event that is awaited: others are void

	// Of one that has to leave: see leave.go.
	stopped, ending bool
	rest            []place.Alloc
	back            []place.Alloc
	parking, parked []place.NodeIndex
	askedS          int64 // when it was told to leave
	fills           bool  // see fill.go
	goneByMS        int64
}

// doneS is how long it has run here.
func (of *run) doneS(nowS int64) int64 {
	if of.stopped || of.ending {
		return of.workedS
	}
	return of.workedS + max(nowS-of.sinceS, 0)
}

// plannedEndS is until when it is planned for, if nothing stops it.
func (of *run) plannedEndS(nowS int64) int64 {
	if of.stopped {
		return nowS + of.plannedS - of.workedS
	}
	return of.sinceS - of.workedS + of.plannedS
}

// holds is what it has now.
func (of *run) holds() place.Placement {
	if of.rest == nil {
		return of.placement
	}
	return place.Placement{Allocs: of.rest}
}

// start starts a job, from the beginning or where its image stops.
func (r *replay) start(job int32, as *sched.Start) {
	placement := as.Placement
	o, doneS := &r.result.Jobs[job], r.owners.savedS[job]
	if o.StartS < 0 {
		o.StartS = r.nowS
	}
	place.Take(r.snapshot.Nodes, placement, false)
	r.runsNow(job)
	of := &run{placement: placement, startS: r.nowS, sinceS: r.nowS, limitS: o.EstimateS - doneS}
	if as.LimitS != 0 {
		of.limitS = int64(as.LimitS)
	}
	of.workS, of.plannedS = min(o.RunS-doneS, of.limitS), min(max(r.plannedS(job)-doneS, 1), of.limitS)
	of.fills = as.Fills
	if doneS > 0 {
		of.sinceS += r.restoreS()
	}
	r.runs[job] = of
	o.Guest = o.Guest || r.isGuest(job)
	at, _ := slices.BinarySearch(r.running, job)
	r.running = slices.Insert(r.running, at, job)
	r.awaitEnd(job)
}

// awaitEnd awaits the end of a job that runs, or of what was predicted of it.
func (r *replay) awaitEnd(job int32) {
	of := r.runs[job]
	r.await(job, runEnds, of.sinceS-of.workedS+min(of.workS, of.plannedS))
}

// await awaits something of a job, and nothing else any more.
func (r *replay) await(job int32, kind eventKind, atS int64) {
	r.turn++
	r.runs[job].turn = r.turn
	r.events.push(event{atS, job, kind, r.turn})
}

// release takes from a job all that it has.
func (r *replay) release(job int32) {
	of := r.runs[job]
	at, _ := slices.BinarySearch(r.running, job)
	r.running = slices.Delete(r.running, at, at+1)
	if of.stopped {
		r.owners.stopped--
	}
	for i := range of.placement.Allocs {
		if alloc := &of.placement.Allocs[i]; slices.Contains(of.parked, alloc.Node) {
			r.snapshot.Nodes[alloc.Node].ParkedMemory -= alloc.MemoryBytes
		}
	}
	r.runs[job] = nil
	place.Release(r.snapshot.Nodes, of.holds(), r.staying)
}

// staying are the jobs on a node that are still there and share it.
func (r *replay) staying(node place.NodeIndex) []place.Stay {
	for _, job := range r.running {
		of := r.runs[job]
		if slices.Contains(of.parked, node) {
			continue
		}
		for i := range of.placement.Allocs {
			if of.placement.Allocs[i].Node == node {
				return []place.Stay{{}} // they are all alike
			}
		}
	}
	return nil
}

// eventKind is what happens.
type eventKind uint8

const (
	runEnds eventKind = iota // or outlasts what was predicted of it
	parked
	packed
	killed
	saved
	wakes
	reclaimEnds
	reclaimBegins
)

// event is something that will happen, to a job or, for reclaims, to one of these.
type event struct {
	atS  int64
	job  int32
	kind eventKind
	turn uint32
}

// events are in the order of their times, and of one time in that of the jobs.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	return cmp.Or(cmp.Compare(a.atS, b.atS), cmp.Compare(a.kind, b.kind), cmp.Compare(a.job, b.job), cmp.Compare(a.turn, b.turn)) < 0
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (q *events) push(e event) { heap.Push(q, e) }
func (q *events) pop() event   { return heap.Pop(q).(event) }
