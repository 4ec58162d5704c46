package sim

import (
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

// predictions are the last two run times of each user.
type predictions map[string][]int64

// learn notes how long a job ran.
func (p predictions) learn(job *trace.Job) {
	if job.User == "" {
		return
	}
	last := append(p[job.User], job.RunS)
	p[job.User] = last[max(len(last)-2, 0):]
}

// of is how long a job will probably run: as long as the user's last two on average, and
// not longer than its limit, which is also what counts as long as there are not two.
func (p predictions) of(job *trace.Job) int64 {
	last := p[job.User]
	if len(last) < 2 {
		return job.EstimateS
	}
	return max(min((last[0]+last[1])/2, job.EstimateS), 1)
}

// plannedS is how long a job is planned for.
func (r *replay) plannedS(at int32) int64 {
	job := &r.result.Jobs[at].Job
	switch r.policy.Predict {
	case LastTwo:
		return r.predicts.of(job)
	case Learned:
		return r.learned.of(job)
	case Exact:
		return max(job.RunS, 1)
	}
	return job.EstimateS
}

// outlast is for a job that runs longer than was predicted.
func (r *replay) outlast(job int32) {
	of := r.runs[job]
	of.plannedS = min(longer(of.plannedS), of.limitS)
	r.awaitEnd(job)
}

// steps are by how much a prediction that was too short grows, each time more.
var steps = []int64{60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000}

// longer is the next prediction after one that was too short.
func longer(plannedS int64) int64 {
	for _, step := range steps {
		if plannedS < step {
			return plannedS + step
		}
	}
	return plannedS * 2
}
