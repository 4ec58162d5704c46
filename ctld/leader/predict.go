package leader

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/predict"
)

// This file has plans go by what jobs will probably run, where the policy says so. What is
// learned from is replicated (the runs that are over, in the order of their ends); what was
// learned is the leader's advice, and stands in no log: starts are checked and carried out
// without it. A new leader learns from the same runs, so it predicts the same, as far as
// they are remembered.

// predicting is what was learned. It may be used by several goroutines.
type predicting struct {
	mu        sync.Mutex
	kind      string // as in the policy
	predictor predict.Predictor
	last      state.EndedRun // that was learned
}

// noLimitS is what counts as the time limit of a job that has none.
const noLimitS = 30 * 24 * 3600

// fill fills in for how long the jobs of a snapshot are planned.
func (p *predicting) fill(view *state.View, snapshot *sched.Snapshot) {
	policy := view.Policy()
	kind := policy.Scheduler.Predicts()
	if kind == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learn(view, kind)
	p.fillRunning(view, snapshot)
	p.fillWaiting(view, snapshot)
}

// learn learns from the runs that have ended meanwhile.
func (p *predicting) learn(view *state.View, kind string) {
	runs, all := view.EndedRunsAfter(&p.last)
	if all || kind != p.kind {
		runs, _ = view.EndedRunsAfter(&state.EndedRun{})
		p.kind, p.predictor = kind, predict.LastTwo{}
		if kind == state.PredictLearned {
			p.predictor = predict.NewLearned()
		}
	}
	for i := range runs {
		of := runs[i].Kind()
		p.predictor.Learn(&predict.Job{
			User: of.User, LimitS: boundedS(of.LimitS), Processors: of.CPUs, SubmitS: int64(runs[i].EligibleS),
		}, int64(max(runs[i].RanS, 1)))
		p.last = runs[i]
	}
}

// fillRunning corrects what has run out.
func (p *predicting) fillRunning(view *state.View, snapshot *sched.Snapshot) {
	for i := range snapshot.Running {
		r := &snapshot.Running[i]
		job, known := view.Job(uint32(r.ID))
		if !known || job.Run == nil || job.Run.Restore != nil {
			continue
		}
		limitS, processors := boundedS(r.TimeLimitS), 0
		for at := range job.Run.Allocs {
			processors += len(job.Run.Allocs[at].CPUs)
		}
		plannedS := p.of(job.Owner().User, limitS, uint32(processors), job.EligibleMS/1000)
		ranS := (snapshot.NowMS - r.StartMS - r.PausedMS) / 1000
		if plannedS = predict.Beyond(plannedS, ranS, limitS); plannedS < limitS {
			r.PlannedEndMS = r.StartMS + r.PausedMS + plannedS*1000
		}
	}
}

// fillWaiting gives jobs that will probably run for less than their limits shapes that say
// so. The lists of a snapshot belong to who made it, and are copied.
func (p *predicting) fillWaiting(view *state.View, snapshot *sched.Snapshot) {
	type variant struct {
		shape    int
		plannedS uint32
	}
	users, shapes := map[uint32]string{}, map[variant]int{}
	waiting := slices.Clone(snapshot.Waiting)
	snapshot.Shapes = slices.Clone(snapshot.Shapes)
	for i := range waiting {
		w := &waiting[i]
		user, known := users[w.UID]
		if !known {
			if job, is := view.Job(uint32(w.ID)); is {
				user = job.Owner().User
			}
			users[w.UID] = user
		}
		shape := &snapshot.Shapes[w.Shape]
		limitS := boundedS(shape.TimeLimitS)
		plannedS := p.of(user, limitS, uint32(min(shape.Request.Least().CPUs, 1<<31)), (snapshot.NowMS-w.AgeMS)/1000)
		if plannedS >= limitS || w.Image != 0 {
			continue
		}
		v := variant{w.Shape, uint32(plannedS)}
		at, made := shapes[v]
		if !made {
			at = len(snapshot.Shapes)
			shapes[v] = at
			planned := *shape
			planned.PlannedS = v.plannedS
			snapshot.Shapes = append(snapshot.Shapes, planned)
		}
		w.Shape = at
	}
	snapshot.Waiting = waiting
}

// of is a prediction, rounded up so that jobs have few different ones.
func (p *predicting) of(user string, limitS int64, processors uint32, submitS int64) int64 {
	plannedS := p.predictor.Of(&predict.Job{User: user, LimitS: limitS, Processors: processors, SubmitS: submitS})
	return min(roundedUp(plannedS), limitS)
}

// roundedUp is a number rounded up to three binary digits, and at least to a minute.
func roundedUp(seconds int64) int64 {
	if seconds <= 60 {
		return 60
	}
	unit := int64(1) << max(bits.Len64(uint64(seconds))-3, 0)
	return (seconds + unit - 1) / unit * unit
}

func boundedS(limitS uint32) int64 {
	if limitS == sched.Unlimited || limitS == 0 {
		return noLimitS
	}
	return int64(limitS)
}

// outlastedMS is when the next prediction of a job that runs is over; 0 = none is.
func outlastedMS(snapshot *sched.Snapshot) (nextMS int64) {
	for i := range snapshot.Running {
		nextMS = earliest(nextMS, snapshot.Running[i].PlannedEndMS)
	}
	return nextMS
}
