package state

import (
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// runningMemo is what the running jobs of a snapshot hold, ascending by number.
type runningMemo struct {
	madeOf runningContext
	// records are theirs; nil where more than the record and the context went into it.
	records []*Job
	held    []*sched.Running
}

// runningContext is what goes into what a running job holds besides its record and the
// inventories of its nodes.
type runningContext struct {
	policy       *policy.Policy
	associations map[uint32]int32
	qos          map[string]int32
	tres         []string
}

// runningPass is the running jobs of one snapshot.
type runningPass struct {
	runningMemo
	before runningMemo
	from   int // in before: those ahead of it have been found, or have ended
}

func (m runningMemo) next(v *View, snapshot *sched.Snapshot, index *schedIndex) *runningPass {
	now := &runningPass{before: m, runningMemo: runningMemo{
		madeOf:  runningContext{policy: v.policy, associations: index.associations, qos: index.qos, tres: snapshot.TRES},
		records: make([]*Job, 0, v.active), held: make([]*sched.Running, 0, v.active),
	}}
	if c := &m.madeOf; !index.named || c.policy != v.policy || !maps.Equal(c.associations, index.associations) || !maps.Equal(c.qos, index.qos) || !slices.Equal(c.tres, snapshot.TRES) {
		now.before = runningMemo{}
	}
	return now
}

// hold is what the next job holds. Whoever gets it changes a copy.
func (p *runningPass) hold(v *View, job *Job, snapshot *sched.Snapshot, index *schedIndex) *sched.Running {
	for p.from < len(p.before.held) && p.before.held[p.from].ID < sched.JobID(job.ID) {
		p.from++
	}
	var held *sched.Running
	if p.from < len(p.before.held) && p.before.records[p.from] == job && staysOn(p.before.held[p.from], snapshot, index) {
		held = p.before.held[p.from]
	} else {
		held = v.schedHeld(job, snapshot, index)
	}
	record := job
	if job.Suspended() || len(job.Spec.Licenses) > 0 {
		record = nil
	}
	p.records, p.held = append(p.records, record), append(p.held, held)
	return held
}

// staysOn reports whether what a job holds is the same as long as its record is: the nodes
// have the devices that they had, and do not tell guests from others.
func staysOn(held *sched.Running, snapshot *sched.Snapshot, index *schedIndex) bool {
	for i := range held.Placement.Allocs {
		alloc := &held.Placement.Allocs[i]
		if !index.same[alloc.Node] || alloc.Guest || snapshot.Nodes[alloc.Node].Guests.Bound {
			return false
		}
	}
	return true
}
