package leader

import (
	"math/bits"
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
	version   uint64         // changes with what was learned
}

// noLimitS is what counts as the time limit of a job that has none.
const noLimitS = 30 * 24 * 3600

// learnS is how often is learned: predictions for many jobs change then, and plans with
// them. Runs are learned in the minute after the one in which they ended, so that all
// leaders know the same at the same time.
const learnS = 60

// fill fills in for how long the jobs of a snapshot are planned.
func (p *predicting) fill(view *state.View, snapshot *sched.Snapshot, memo *Memo) {
	policy := view.Policy()
	kind := policy.Scheduler.Predicts()
	if kind == "" {
		memo.predicted = predicted{}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learn(view, kind, uint32(snapshot.NowMS/1000/learnS*learnS))
	p.fillRunning(view, snapshot)
	p.fillWaiting(view, snapshot, memo)
}

// learn learns from the runs that have ended meanwhile, but before a time.
func (p *predicting) learn(view *state.View, kind string, beforeS uint32) {
	runs, all := view.EndedRunsAfter(&p.last)
	if nothing := (state.EndedRun{}); kind != p.kind || all && p.last != nothing {
		runs, _ = view.EndedRunsAfter(&nothing)
		p.kind, p.last, p.predictor = kind, nothing, predict.LastTwo{}
		if kind == state.PredictLearned {
			p.predictor = predict.NewLearned()
		}
		p.version++
	}
	learned := 0
	for ; learned < len(runs) && runs[learned].EndS < beforeS; learned++ {
		run := &runs[learned]
		of := run.Kind()
		p.predictor.Learn(&predict.Job{
			User: of.User, LimitS: boundedS(of.LimitS), Processors: of.CPUs, SubmitS: int64(run.EligibleS),
		}, int64(max(run.RanS, 1)))
	}
	if learned > 0 {
		p.last = runs[learned-1]
		p.version++
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
		plannedS := p.of(job.Owner().User, limitS, uint32(processors), hourOf(job.EligibleMS))
		ranS := (snapshot.NowMS - r.StartMS - r.PausedMS) / 1000
		if plannedS = predict.Beyond(plannedS, ranS, limitS); plannedS < limitS {
			r.PlannedEndMS = r.StartMS + r.PausedMS + plannedS*1000
		}
	}
}

// of is a prediction for a job that could start since an hour of a day. It is rounded up so
// that jobs have few different ones.
func (p *predicting) of(user string, limitS int64, processors uint32, hour int64) int64 {
	plannedS := p.predictor.Of(&predict.Job{User: user, LimitS: limitS, Processors: processors, SubmitS: hour * 3600})
	return min(roundedUp(plannedS), limitS)
}

// hourOf is the hour of the day, from 0 to 23.
func hourOf(ms int64) int64 { return max(ms, 0) / 3_600_000 % 24 }

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
