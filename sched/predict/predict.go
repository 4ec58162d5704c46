// Package predict says how long jobs will probably run, by what their users' jobs ran
// before. Time limits are mostly much too long to plan by.
//
// Contract: pure arithmetic; standard library only. The same jobs, learned in the same
// order, give the same predictions. A prediction is at least a second, and never more than
// the time limit. One that was too short is corrected with Longer.
package predict

// Job is what is known of a job before it runs. Times are seconds.
type Job struct {
	User       string // "" = not known
	LimitS     int64  // its time limit, at least 1
	Processors uint32
	SubmitS    int64 // Unix time
}

// Predictor predicts, and learns from jobs that have ended. It is for one goroutine.
type Predictor interface {
	Of(job *Job) int64
	Learn(job *Job, ranS int64)
}

// LastTwo are the last two run times of each user (Tsafrir, Etsion and Feitelson, 2007).
type LastTwo map[string][]int64

// Learn notes how long a job ran.
func (p LastTwo) Learn(job *Job, ranS int64) {
	if job.User == "" {
		return
	}
	last := append(p[job.User], ranS)
	p[job.User] = last[max(len(last)-2, 0):]
}

// Of is how long a job will probably run: as long as the user's last two on average, and
// not longer than its limit, which is also what counts as long as there are not two.
func (p LastTwo) Of(job *Job) int64 {
	last := p[job.User]
	if len(last) < 2 {
		return job.LimitS
	}
	return max(min((last[0]+last[1])/2, job.LimitS), 1)
}

// steps are by how much a prediction that was too short grows, each time more.
var steps = []int64{60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000}

// Longer is the next prediction after one that was too short.
func Longer(plannedS int64) int64 {
	for _, step := range steps {
		if plannedS < step {
			return plannedS + step
		}
	}
	return plannedS * 2
}

// Beyond is a prediction for a job that has run for some time: corrected until it is longer
// than that, and at most the limit.
func Beyond(plannedS, ranS, limitS int64) int64 {
	for plannedS <= ranS && plannedS < limitS {
		plannedS = Longer(plannedS)
	}
	return min(plannedS, limitS)
}
