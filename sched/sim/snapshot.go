package sim

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// shapeKey tells shapes apart.
type shapeKey struct {
	asks       *trace.Ask
	processors uint32
	partition  int
	limitS     int64
	leastS     int64 // 0 = limitS
	plannedS   int64
	owner      int32 // 0 where no node is reclaimed
}

// describe makes the snapshot of now. Jobs have the numbers of their places in the
// trace, from 1 on.
func (r *replay) describe() {
	s := &r.snapshot
	s.NowMS = r.nowS * 1000
	s.Shapes, s.Waiting, s.Running = s.Shapes[:0:0], make([]sched.Job, 0, len(r.waiting)), make([]sched.Running, 0, len(r.running))
	clear(r.shapes)
	reclaimed := slices.ContainsFunc(r.owners.reclaimed, func(reclaims int) bool { return reclaims > 0 })
	for _, at := range r.waiting {
		job := &r.result.Jobs[at]
		waits := sched.Job{
			ID: sched.JobID(at + 1), Tasks: 1, Shape: r.shapeOf(at, reclaimed), Association: -1, QOS: -1, AgeMS: (r.nowS - job.SubmitS) * 1000,
			Owner: r.owner(at), SaveS: uint32(r.policy.Saves.BoundS), RestoreS: uint32(r.restoreS()),
		}
		if r.owners.savedS[at] > 0 {
			waits.Image = 1
		}
		s.Waiting = append(s.Waiting, waits)
	}
	for _, at := range r.running {
		s.Running = append(s.Running, r.describeRun(at))
	}
}

func (r *replay) describeRun(at int32) sched.Running {
	of, o := r.runs[at], &r.result.Jobs[at]
	out := sched.Running{
		ID: sched.JobID(at + 1), StartMS: of.startS * 1000, TimeLimitS: limit(of.limitS + r.owners.savedS[at]), Placement: of.holds(),
		PlannedEndMS: of.plannedEndS(r.nowS) * 1000, Association: -1, QOS: -1, Partition: r.partitionOf(o),
		Owner: r.owner(at), Ending: of.ending, Requeue: true, Parks: true, LostGPUMS: o.LostS * int64(o.Processors) * 1000,
		Suspended: of.stopped, Back: of.back, Parked: of.parked, Parking: of.parking,
	}
	out.Fills, out.Saves, out.SaveS, out.GoneByMS = of.fills, of.fills, uint32(r.policy.Saves.BoundS), of.goneByMS
	if of.sinceS > of.startS {
		out.ContinuedMS = of.sinceS * 1000
	}
	guests := r.policy.Lending.Guests
	out.Suspends = !of.stopped && (guests == GuestsPark || guests == GuestsPack)
	out.Continues = of.stopped && !slices.ContainsFunc(of.parked, r.isReclaimed) && !slices.ContainsFunc(of.parking, r.isReclaimed)
	return out
}

// limit is a time limit of so many seconds.
func limit(seconds int64) uint32 { return uint32(min(seconds, int64(sched.Unlimited)-1)) }

func (r *replay) partitionOf(job *Outcome) int {
	if r.policy.Lending.Guests == GuestsNone {
		return r.partition[job.Account]
	}
	if job.Asks == nil {
		return 0
	}
	return r.partition[job.Asks.Partition]
}

func (r *replay) shapeOf(at int32, reclaimed bool) int {
	job := &r.result.Jobs[at]
	doneS := r.owners.savedS[at]
	key := shapeKey{asks: job.Asks, processors: job.Processors, partition: r.partitionOf(job), limitS: max(job.EstimateS-doneS, 1), plannedS: max(r.plannedS(at)-doneS, 1)}
	if job.LeastS > 0 {
		key.leastS = max(job.LeastS-doneS, 1)
	}
	if reclaimed {
		key.owner = r.owner(at)
	}
	index, known := r.shapes[key]
	if !known {
		index = len(r.snapshot.Shapes)
		r.shapes[key] = index
		r.snapshot.Shapes = append(r.snapshot.Shapes, sched.Shape{
			Partitions: []int{key.partition}, TimeLimitS: limit(key.limitS), TimeMinS: limit(key.leastS), PlannedS: limit(key.plannedS), Request: r.requestOf(job, reclaimed, key.owner),
		})
	}
	return index
}

func (r *replay) requestOf(job *Outcome, reclaimed bool, owner int32) place.Request {
	request := r.cluster.Request(&job.Job)
	if reclaimed {
		request.ExcludedNodes = r.excludedFor(owner)
	}
	return request
}
