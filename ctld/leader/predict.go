package leader

import (
	"math/bits"
	"sync"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
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
	memo.predicted.next(p.version, memo.snapshot.Shapes(), len(snapshot.Waiting))
	p.fillRunning(view, snapshot, &memo.predicted)
	p.fillWaiting(view, snapshot, memo)
}

// learn learns from the runs that have ended meanwhile, but before a time.
func (p *predicting) learn(view *state.View, kind string, beforeS uint32) {
	runs, all := view.EndedRunsAfter(&p.last)
	if nothing := (state.EndedRun{}); kind != p.kind || all && p.last != nothing {
		runs, _ = view.EndedRunsAfter(&nothing)
		p.kind, p.last, p.predictor = kind, nothing, predict.LastTwo{}
		if kind == policy.PredictLearned {
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

// runPrediction is what was predicted for a job that runs.
type runPrediction struct {
	job        sched.JobID
	startMS    int64
	timeLimitS uint32
	nodes      int
	plannedS   int64 // 0 = for it there is none
}

// fillRunning corrects what has run out. A prediction holds for as long as the run is the
// same and nothing was learned.
func (p *predicting) fillRunning(view *state.View, snapshot *sched.Snapshot, memo *predicted) {
	before, runs := memo.runs, make([]runPrediction, 0, len(snapshot.Running))
	for i := range snapshot.Running { // ascending
		r := &snapshot.Running[i]
		for len(before) > 0 && before[0].job < r.ID {
			before = before[1:]
		}
		run := runPrediction{job: r.ID, startMS: r.StartMS, timeLimitS: r.TimeLimitS, nodes: len(r.Placement.Allocs)}
		if len(before) > 0 {
			run.plannedS = before[0].plannedS
		}
		if len(before) == 0 || before[0] != run {
			run.plannedS = p.ofRun(view, r)
		}
		runs = append(runs, run)
		if run.plannedS == 0 {
			continue
		}
		limitS, ranS := boundedS(r.TimeLimitS), (snapshot.NowMS-r.StartMS-r.PausedMS)/1000
		if plannedS := predict.Beyond(run.plannedS, ranS, limitS); plannedS < limitS {
			r.PlannedEndMS = r.StartMS + r.PausedMS + plannedS*1000
		}
	}
	memo.runs = runs
}

// ofRun is for how long a job that runs was predicted to; 0 = nothing is known.
func (p *predicting) ofRun(view *state.View, r *sched.Running) int64 {
	job, known := view.Job(uint32(r.ID))
	if !known || job.Run == nil || job.Run.Restore != nil {
		return 0
	}
	processors := 0
	for at := range job.Run.Allocs {
		processors += len(job.Run.Allocs[at].CPUs)
	}
	return p.of(job.Owner().User, boundedS(r.TimeLimitS), uint32(processors), hourOf(job.EligibleMS))
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
