package sim

import (
	"github.com/gleaner-hpc/gleaner/sched/predict"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// Prediction is what plans go by.
type Prediction uint8

// Predictions.
const (
	Limits  Prediction = iota // time limits
	LastTwo                   // what a user's last two jobs ran on average (Tsafrir, Etsion and Feitelson, 2007)
	Learned                   // what learns online from user, limit, size and hour: see learn.go
	Exact                     // what the job will run, which nobody knows
)

// described is a job as predictions know it.
func described(job *trace.Job) *predict.Job {
	return &predict.Job{User: job.User, LimitS: job.EstimateS, Processors: job.Processors, SubmitS: job.SubmitS}
}

// plannedS is how long a job is planned for.
func (r *replay) plannedS(at int32) int64 {
	job := &r.result.Jobs[at].Job
	switch r.policy.Predict {
	case LastTwo:
		return r.predicts.Of(described(job))
	case Learned:
		return r.learned.Of(described(job))
	case Exact:
		return max(job.RunS, 1)
	}
	return job.EstimateS
}

// outlast is for a job that runs longer than was predicted.
func (r *replay) outlast(job int32) {
	of := r.runs[job]
	of.plannedS = min(predict.Longer(of.plannedS), of.limitS)
	r.awaitEnd(job)
}
