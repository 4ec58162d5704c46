package state

import (
	"bytes"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// waitingPass lists the jobs that wait for one snapshot.
type waitingPass struct {
	*View
	snapshot *sched.Snapshot
	index    *schedIndex
	nodes    *schedNodesFor
	before   waitingMemo
	now      waitingMemo
	given    map[uint32]uint32 // array -> tasks offered so far in this snapshot
	shapes   []*Shape          // by slot
	kept     []bool            // by slot: jobs of before.shapes are kept
	// run is from where to where in before jobs are as they were, that are not listed yet.
	run struct{ from, to int }
	// again are the jobs that are looked at a second time, and at is where they are in Waiting.
	again []*Job
	at    []int
	made  []int // where those are that were not kept
}

// schedWaiting lists the jobs that wait, and the shapes they wait in, in the
// order of their digests. What an array's throttle leaves goes to its records
// in the order of their numbers.
//
// There may be a million, and to look at a record takes longer than all that is
// done with it. So one that is as it was in the last snapshot is not looked at. Each other
// one is looked at once, in which those that hold nodes are found
// too, and a second time only if nodes are kept from it or it has been saved.
func (v *View) schedWaiting(snapshot *sched.Snapshot, index *schedIndex, told NodeReports, before waitingMemo) waitingMemo {
	count := v.live.Len() - int(v.active)
	w := &waitingPass{
		View: v, snapshot: snapshot, index: index, nodes: v.schedNodesFor(snapshot.NowMS, told), before: before,
		given: map[uint32]uint32{}, shapes: make([]*Shape, v.shapeSlots), kept: make([]bool, v.shapeSlots),
		now: waitingMemo{
			madeOf:  waitingContext{policy: v.policy, associations: index.associations, qos: index.qos, saveRate: index.saveRate, nowMS: snapshot.NowMS},
			records: spared(before.spare.records, count), slots: spared(before.spare.slots, count),
		},
	}
	if !before.madeOf.allows(&w.now.madeOf) {
		w.before = waitingMemo{shapes: before.shapes}
	}
	snapshot.Waiting = spared(before.spare.jobs, count)
	from := 0
	v.live.Scan(func(id uint32, job *Job) bool {
		if at := w.before.find(&from, id, job); at >= 0 {
			if at != w.run.to {
				w.keep()
				w.run.from = at
			}
			w.run.to = at + 1
			return true
		}
		if job.HoldsNodes() {
			index.holding = append(index.holding, job)
		}
		if job.Phase == Waiting {
			w.keep() // which come before it
			w.make(job)
		}
		return true
	})
	w.keep()
	for slot, is := range w.kept {
		if is {
			w.shapes[slot] = before.shapes.bySlot[slot]
		}
	}
	w.place(before.narrowed)
	for i, job := range w.again {
		out := &snapshot.Waiting[w.at[i]]
		v.schedResume(snapshot, job, out, told)
		w.nodes.fill(snapshot, index, job, out)
	}
	w.now.narrowed = len(w.again) > 0
	w.now.jobs, w.now.spare = snapshot.Waiting, waitingSpare{before.jobs, before.records, before.slots}
	return w.now
}

// place gives the jobs their shapes. Those that were kept have them, unless the shapes are
// others, or some of the jobs had others.
func (w *waitingPass) place(narrowed bool) {
	shapes, same := w.schedShapes(w.snapshot, w.shapes, w.before.shapes)
	w.now.shapes = shapes
	if same && !narrowed {
		for _, i := range w.made {
			w.snapshot.Waiting[i].Shape = shapes.position[w.now.slots[i]]
		}
		return
	}
	for i, slot := range w.now.slots {
		w.snapshot.Waiting[i].Shape = shapes.position[slot]
	}
}

// keptAtOnce is how many jobs are copied before more is done with them: as many as stay near
// the processor meanwhile.
const keptAtOnce = 128

// keep lists the jobs of the run as they were listed before, but older.
func (w *waitingPass) keep() {
	to := w.run.to
	for from := w.run.from; from < to; from += keptAtOnce {
		w.keepSome(from, min(from+keptAtOnce, to))
	}
	w.run.from = to
}

func (w *waitingPass) keepSome(from, to int) {
	first := len(w.snapshot.Waiting)
	w.snapshot.Waiting = append(w.snapshot.Waiting, w.before.jobs[from:to]...)
	w.now.records, w.now.slots = append(w.now.records, w.before.records[from:to]...), append(w.now.slots, w.before.slots[from:to]...)
	for _, slot := range w.before.slots[from:to] {
		w.kept[slot] = true
	}
	passed, owned := w.now.madeOf.nowMS-w.before.madeOf.nowMS, len(w.index.owners.nodes) > 0
	for i := first; i < len(w.snapshot.Waiting); i++ {
		out := &w.snapshot.Waiting[i]
		if out.Held == sched.NotHeld {
			out.AgeMS += passed
		}
		if out.Owner = 0; owned {
			out.Owner = w.ownerOf(out.Association, w.snapshot, w.index)
		}
	}
	if w.nodes.ruled {
		for i := first; i < len(w.snapshot.Waiting); i++ {
			w.again, w.at = append(w.again, w.now.records[i]), append(w.at, i)
		}
	}
}

// make lists a job.
func (w *waitingPass) make(job *Job) {
	w.nodes.keeps(job)
	if w.nodes.judges(job) || job.Saved != nil {
		w.again, w.at = append(w.again, job), append(w.at, len(w.snapshot.Waiting))
	}
	w.made = append(w.made, len(w.snapshot.Waiting))
	shape := job.Spec.shape
	w.shapes[shape.slot] = shape
	association := w.index.association(job.Association)
	w.snapshot.Waiting = append(w.snapshot.Waiting, sched.Job{
		ID:    sched.JobID(job.ID),
		Held:  job.Held,
		Tasks: 1,

		Association: association,
		QOS:         w.index.qosNamed(job.Spec.QOS),
		UID:         job.Owner().UID,

		Nice:          job.Spec.Nice,
		FixedPriority: job.FixedPriority,
		Licenses:      schedLicenses(w.snapshot, len(w.policy.Licenses), job.Spec.Licenses),
		Owner:         w.ownerOf(association, w.snapshot, w.index),
	})
	out := &w.snapshot.Waiting[len(w.snapshot.Waiting)-1]
	if job.Array != 0 {
		out.Tasks, out.Throttled = w.startable(job, w.given[job.Array])
		if job.Held == sched.NotHeld {
			w.given[job.Array] += out.Tasks
		}
	}
	job.schedWaits(w.snapshot.NowMS, out)
	out.Reservation = w.schedReservation(job, w.snapshot.NowMS)
	w.schedFill(job, out, w.index.saveRate)
	record := job
	if !job.fromRecordAlone(w.snapshot.NowMS) {
		record = nil
	}
	w.now.records, w.now.slots = append(w.now.records, record), append(w.now.slots, shape.slot)
}

// shapesMemo is the shapes of a snapshot's waiting jobs, as they asked for them.
type shapesMemo struct {
	policy    *policy.Policy
	bySlot    []*Shape
	scheduled []sched.Shape
	position  []int // by slot
}

// schedShapes lists the shapes of the waiting jobs, which come by slot, and says where in
// the list each is. same: as before.
func (v *View) schedShapes(snapshot *sched.Snapshot, bySlot []*Shape, before shapesMemo) (now shapesMemo, same bool) {
	if before.policy == v.policy && slices.Equal(before.bySlot, bySlot) {
		snapshot.Shapes = slices.Clip(before.scheduled)
		return before, true
	}
	shapes := slices.DeleteFunc(slices.Clone(bySlot), func(shape *Shape) bool { return shape == nil })
	slices.SortFunc(shapes, func(a, b *Shape) int { return bytes.Compare(a.digest[:], b.digest[:]) })
	now = shapesMemo{policy: v.policy, bySlot: bySlot, position: make([]int, v.shapeSlots), scheduled: make([]sched.Shape, 0, len(shapes))}
	for i, shape := range shapes {
		now.position[shape.slot] = i
		now.scheduled = append(now.scheduled, SchedShape(v.policy, shape))
	}
	snapshot.Shapes = slices.Clip(now.scheduled)
	return now, false
}
