package predict

import "math"

// Learned predicts run times by a linear regression of their logarithms that learns from
// each job that ends: normalised least mean squares (Widrow and Hoff), with another
// weight for predictions that were too short than for those that were too long (Gaussier,
// Glesser, Reis and Trystram, "Improving backfilling by using machine learning to predict
// running times", SC 2015).
type Learned struct {
	weights [features]float64
	users   map[string]*history
}

// history is what is kept of a user, in logarithms of seconds.
type history struct {
	jobs       int
	mean       float64 // of how much of its limit a job ran; later ones count more
	last, past float64
}

// features of a job.
const features = 9

const (
	rate     = 0.1 // how fast it learns
	fades    = 0.2 // how much the last job counts in the mean
	tooShort = 2   // how much worse a prediction is that was too short
)

// NewLearned has learned nothing yet.
func NewLearned() *Learned { return &Learned{users: map[string]*history{}} }

func (l *Learned) describe(job *Job) (x [features]float64) {
	limit := math.Log1p(float64(job.LimitS))
	x[0], x[1], x[2] = 1, limit/10, math.Log1p(float64(job.Processors))/5
	hour := float64(job.SubmitS%86400) / 86400 * 2 * math.Pi
	x[3], x[4] = math.Sin(hour)/4, math.Cos(hour)/4
	if of := l.users[job.User]; of != nil && of.jobs > 0 {
		x[5], x[6], x[7], x[8] = 1, (limit+of.mean)/10, of.last/10, of.past/10
	}
	return x
}

// Of is how long a job will probably run; not longer than its limit.
func (l *Learned) Of(job *Job) int64 {
	x, sum := l.describe(job), 0.0
	for i := range x {
		sum += l.weights[i] * x[i]
	}
	if of := l.users[job.User]; of == nil || of.jobs < 2 {
		return job.LimitS
	}
	return max(min(int64(math.Expm1(min(max(sum, 0), 30))), job.LimitS), 1)
}

// Learn notes how long a job ran.
func (l *Learned) Learn(job *Job, ranS int64) {
	x, sum, size := l.describe(job), 0.0, 1e-3
	for i := range x {
		sum += l.weights[i] * x[i]
		size += x[i] * x[i]
	}
	ran := math.Log1p(float64(ranS))
	wrong := ran - sum
	if wrong > 0 {
		wrong *= tooShort
	}
	for i := range x {
		l.weights[i] += rate * wrong * x[i] / size
	}
	of := l.users[job.User]
	if of == nil {
		of = &history{}
		l.users[job.User] = of
	}
	ratio := ran - math.Log1p(float64(job.LimitS))
	if of.jobs == 0 {
		of.mean, of.last = ratio, ran
	}
	of.jobs, of.past, of.last = of.jobs+1, (of.last+ran)/2, ran
	of.mean += fades * (ratio - of.mean)
}
