package leader

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file predicts for the jobs that wait, of which there may be very many. A prediction
// is made for all jobs of one user, one shape and one hour of the day together, and holds
// until more is learned.

// predicted is what was predicted for waiting jobs, and is for speed only. It holds as long
// as shapes have the places that they had, and nothing was learned.
type predicted struct {
	version uint64        // of what was learned
	shapes  []sched.Shape // as jobs asked for them
	places  map[predictedFor]int32
	answers []answer
	recent  []answerPlace // by shape: of the last job that asked
	pass    uint32        // counts the passes
	made    int           // how many shapes were added in the last one
	runs    []runPrediction
}

// answerPlace is where the answer is that something has.
type answerPlace struct {
	of predictedFor
	at int32 // 1 + the place; 0 = none
}

// predictedFor is what a prediction depends on: a shape's place, an hour and a user, in one
// word, because a map of such is the fastest.
type predictedFor uint64

// mostShapes is how many shapes it can tell apart; others are predicted for each job.
const mostShapes = 1 << 27

func predictionFor(shape int, uid uint32, hour int64) predictedFor {
	return predictedFor(shape)<<37 | predictedFor(hour)<<32 | predictedFor(uid)
}

// answer is a prediction, and the shape that says it.
type answer struct {
	plannedS uint32 // 0 = the limit
	pass     uint32 // in which the place of the shape was found
	at       int    // the place
}

// next is what still holds of what was predicted in the pass before.
func (k *predicted) next(version uint64, shapes []sched.Shape, jobs int) {
	same := k.version == version && len(k.shapes) == len(shapes) && (len(shapes) == 0 || &k.shapes[0] == &shapes[0])
	if k.pass++; same && len(k.answers) <= 1024+2*jobs && k.pass != 0 {
		return
	}
	runs := k.runs
	if k.version != version {
		runs = nil
	}
	*k = predicted{
		version: version, shapes: shapes, places: make(map[predictedFor]int32, len(k.answers)), answers: k.answers[:0],
		recent: make([]answerPlace, len(shapes)), pass: 1, made: k.made, runs: runs,
	}
}

// variant is a shape that says for how long it is planned.
type variant struct {
	shape    int
	plannedS uint32
}

// waitingPredictions are those of one pass.
type waitingPredictions struct {
	*predicting
	*predicted
	view     *state.View
	snapshot *sched.Snapshot
	users    map[uint32]string
	variants map[variant]int
	daily    bool // the hour matters
}

// fillWaiting gives jobs that will probably run for less than their limits shapes that say
// so.
func (p *predicting) fillWaiting(view *state.View, snapshot *sched.Snapshot, memo *Memo) {
	w := waitingPredictions{
		predicting: p, predicted: &memo.predicted, view: view, snapshot: snapshot,
		users: map[uint32]string{}, variants: map[variant]int{}, daily: p.kind == policy.PredictLearned,
	}
	before := len(snapshot.Shapes)
	snapshot.Shapes = slices.Grow(snapshot.Shapes, w.made+w.made/8)
	for i := range snapshot.Waiting {
		if job := &snapshot.Waiting[i]; job.Image == 0 {
			job.Shape = w.shapeOf(job)
		}
	}
	w.made = len(snapshot.Shapes) - before
	memo.snapshot.Reshaped()
}

// shapeOf is the place of the shape that a job is planned with.
func (w *waitingPredictions) shapeOf(job *sched.Job) int {
	hour := int64(0)
	if w.daily {
		hour = hourOf(w.snapshot.NowMS - job.AgeMS)
	}
	if job.Shape >= len(w.shapes) || job.Shape >= mostShapes { // narrowed for this job
		return w.place(job.Shape, w.predict(job, hour))
	}
	of := predictionFor(job.Shape, job.UID, hour)
	recent := &w.recent[job.Shape]
	if recent.of != of || recent.at == 0 {
		*recent = answerPlace{of, 1 + w.find(of, job, hour)}
	}
	is := &w.answers[recent.at-1]
	if is.pass != w.pass {
		is.pass, is.at = w.pass, w.place(job.Shape, is.plannedS)
	}
	return is.at
}

// IndexOf is where the answer for a job is.
func (w *waitingPredictions) find(of predictedFor, job *sched.Job, hour int64) int32 {
	at, known := w.places[of]
	if !known {
		at = int32(len(w.answers))
		w.places[of] = at
		w.answers = append(w.answers, answer{plannedS: w.predict(job, hour)})
	}
	return at
}

// predict is for how many seconds a job is planned; 0 = for its limit.
func (w *waitingPredictions) predict(job *sched.Job, hour int64) uint32 {
	user, known := w.users[job.UID]
	if !known {
		if record, is := w.view.Job(uint32(job.ID)); is {
			user = record.Owner().User
		}
		w.users[job.UID] = user
	}
	shape := &w.snapshot.Shapes[job.Shape]
	limitS := boundedS(shape.TimeLimitS)
	if plannedS := w.of(user, limitS, uint32(min(shape.Request.Least().CPUs, 1<<31)), hour); plannedS < limitS {
		return uint32(plannedS)
	}
	return 0
}

// place is where the variant of a shape is, which is added to the snapshot if it is not
// there yet.
func (w *waitingPredictions) place(shape int, plannedS uint32) int {
	if plannedS == 0 {
		return shape
	}
	v := variant{shape, plannedS}
	at, made := w.variants[v]
	if !made {
		at = len(w.snapshot.Shapes)
		w.variants[v] = at
		planned := w.snapshot.Shapes[shape]
		planned.PlannedS = plannedS
		w.snapshot.Shapes = append(w.snapshot.Shapes, planned)
	}
	return at
}
