package sim

import (
	"github.com/gleaner-hpc/gleaner/sched"
)

// shapeKey tells shapes apart.
type shapeKey struct {
	processors uint32
	limitS     int64
	plannedS   int64
}

// describe makes the snapshot of now. Jobs have the numbers of their places in the
// trace, from 1 on.
func (r *replay) describe() {
	s := &r.snapshot
	s.NowMS = r.nowS * 1000
	s.Shapes, s.Waiting, s.Running = s.Shapes[:0:0], make([]sched.Job, 0, len(r.waiting)), make([]sched.Running, 0, len(r.running))
	clear(r.shapes)
	for _, at := range r.waiting {
		job := &r.result.Jobs[at]
		s.Waiting = append(s.Waiting, sched.Job{
			ID: sched.JobID(at + 1), Tasks: 1, Shape: r.shapeOf(at), Association: -1, QOS: -1, AgeMS: (r.nowS - job.SubmitS) * 1000,
		})
	}
	for _, at := range r.running {
		of := &r.runs[at]
		s.Running = append(s.Running, sched.Running{
			ID: sched.JobID(at + 1), StartMS: of.startS * 1000, TimeLimitS: limit(r.result.Jobs[at].EstimateS), Placement: of.placement,
			PlannedEndMS: (of.startS + of.plannedS) * 1000, Association: -1, QOS: -1,
		})
	}
}

// limit is a time limit of so many seconds.
func limit(seconds int64) uint32 { return uint32(min(seconds, int64(sched.Unlimited)-1)) }

func (r *replay) shapeOf(at int32) int {
	job := &r.result.Jobs[at]
	key := shapeKey{job.Processors, job.EstimateS, r.plannedS(at)}
	index, known := r.shapes[key]
	if !known {
		index = len(r.snapshot.Shapes)
		r.shapes[key] = index
		r.snapshot.Shapes = append(r.snapshot.Shapes, sched.Shape{
			Partitions: []int{0}, TimeLimitS: limit(key.limitS), PlannedS: limit(key.plannedS), Request: r.cluster.Request(key.processors),
		})
	}
	return index
}
