package state

import (
	"maps"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file keeps what one snapshot leaves for the next, so that a snapshot after an event
// costs what has changed, and a comparison for all else. It cannot be out of date: a stored
// record is never changed, so what was made of a record alone holds for as long as the
// record is the same one in memory. What else went into it is compared each time.

// SnapshotMemo is what one SchedSnapshotAfter leaves for the next, of the same cluster. It
// is for speed only, and the zero value is always right. Each is used once: the list of
// waiting jobs, which is long, lies in the memory of the last snapshot but one, and that of
// nodes is changed in place.
type SnapshotMemo struct {
	nodes   nodesMemo
	waiting waitingMemo
	running runningMemo
}

// Shapes are the shapes of the snapshot as its waiting jobs asked for them, in the places
// that they have there. They are the same list in memory for as long as they are the same.
func (m *SnapshotMemo) Shapes() []sched.Shape { return m.waiting.shapes.scheduled }

// Reshaped is for who gave waiting jobs of the snapshot other shapes, in its own list. The
// next snapshot has those again that they asked for.
func (m *SnapshotMemo) Reshaped() { m.waiting.narrowed = true }

// nodesMemo is the nodes of a snapshot, as far as each follows from its record.
type nodesMemo struct {
	records   []*Node // ascending by name
	converted []place.Node
	nodes     map[string]place.NodeIndex // by name
	models    []string                   // of their devices
	// named: all have the places that they had in the snapshot before; same are those of
	// them that have the inventory that they had.
	named bool
	same  []bool
}

// schedNodes fills in the nodes. There may be ten thousand, and a pass after each of many
// events: so the lists of the memo are changed in place while the nodes are the same ones.
func (v *View) schedNodes(snapshot *sched.Snapshot, before nodesMemo) nodesMemo {
	count := v.nodes.Len()
	now := nodesMemo{named: count == len(before.records)}
	if now.named {
		now.records, now.converted, now.same = before.records[:0], before.converted[:0], before.same[:0]
	} else {
		now.makeRoom(count)
	}
	at, sameModels := 0, now.named
	for node := range v.Nodes() {
		for at < len(before.records) && before.records[at].Name < node.Name {
			at++
		}
		if now.named && (at != len(now.records) || before.records[at].Name != node.Name) {
			now.named, sameModels = false, false
			now.makeRoom(count)
		}
		same := now.named && before.records[at].Inventory == node.Inventory
		sameModels = sameModels && same
		switch {
		case at == len(before.records) || before.records[at] != node:
			now.converted = append(now.converted, schedNode(node))
		case now.named:
			now.converted = now.converted[:at+1] // it is there
		default:
			now.converted = append(now.converted, before.converted[at])
		}
		now.records, now.same = append(now.records, node), append(now.same, same)
	}
	if now.nodes = before.nodes; !now.named {
		now.nodes = make(map[string]place.NodeIndex, count)
		for i, node := range now.records {
			now.nodes[node.Name] = place.NodeIndex(i)
		}
	}
	if now.models = before.models; !sameModels {
		now.models = v.gpuModels()
	}
	snapshot.Nodes = append(make([]place.Node, 0, count), now.converted...)
	return now
}

// makeRoom makes lists of their own for so many nodes, which begin as the lists do so far.
func (m *nodesMemo) makeRoom(count int) {
	m.records = append(make([]*Node, 0, count), m.records...)
	m.converted = append(make([]place.Node, 0, count), m.converted...)
	m.same = append(make([]bool, 0, count), m.same...)
}

// waitingMemo is the waiting jobs of a snapshot, ascending by number.
type waitingMemo struct {
	madeOf waitingContext
	jobs   []sched.Job
	// records are theirs; nil where more than the record and the context went into the job.
	records []*Job
	slots   []uint32 // of their shapes
	shapes  shapesMemo
	// narrowed: some have a shape that is not the one of their slot.
	narrowed bool
	spare    waitingSpare
}

// waitingSpare is the memory of the lists of the snapshot before.
type waitingSpare struct {
	jobs    []sched.Job
	records []*Job
	slots   []uint32
}

// spared is an empty list with room for so many, in memory that is there if there is enough
// of it, and not very much more.
func spared[V any](memory []V, count int) []V {
	if memory == nil || cap(memory) < count || cap(memory) > 1024+8*count {
		return make([]V, 0, count+count/64)
	}
	return memory[:0]
}

// waitingContext is what goes into each waiting job besides its record.
type waitingContext struct {
	policy       *policy.Policy
	associations map[uint32]int32
	qos          map[string]int32
	saveRate     uint64
	nowMS        int64 // ages are as of then
}

// allows reports whether jobs that were made in one context hold in another, but for their
// ages.
func (c *waitingContext) allows(now *waitingContext) bool {
	return c.policy == now.policy && c.saveRate == now.saveRate && c.nowMS <= now.nowMS &&
		maps.Equal(c.associations, now.associations) && maps.Equal(c.qos, now.qos)
}

// fromRecordAlone reports whether a waiting job of the scheduler follows from its record
// and a waitingContext, and gets older as time passes unless it is held. Not so where other
// jobs matter, nodes, reservations, licenses, or a time that comes.
func (j *Job) fromRecordAlone(nowMS int64) bool {
	return j.Array == 0 && j.Dependencies.IsZero() && j.BeginMS == 0 && j.Saved == nil && j.Avoided == nil && j.Staged == nil && !j.MayPullFirst() &&
		len(j.Spec.Licenses) == 0 && len(j.Spec.Reservations) == 0 && (j.Held != sched.NotHeld || j.EligibleMS <= nowMS)
}

// IndexOf is where the job of a record is, from a place on that only goes forward; -1 = it
// has to be made. Mostly it is the next: then nothing else is looked at, since that takes
// longer.
func (m *waitingMemo) find(from *int, id uint32, record *Job) int {
	for *from < len(m.records) && m.records[*from] != record && m.jobs[*from].ID < sched.JobID(id) {
		*from++
	}
	if *from < len(m.records) && m.records[*from] == record {
		*from++
		return *from - 1
	}
	return -1
}
