package leader

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/tally"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// A pass is followed by a rest at least as long as it took, so that planning
// never takes more than half of a core, and changes gather meanwhile. If only
// new jobs came, which queue after the waiting ones, the rest is submissionRest
// times as long: a storm of submissions to a long queue leaves the core to the
// submissions. An idle controller, whose passes take no time, starts a job
// without any rest.
const (
	minRest        = 2 * time.Millisecond
	maxRest        = 2 * time.Second
	submissionRest = 9
)

// schedule plans after each change and commits what starts.
func (l *Leader) schedule(ctx context.Context) {
	wake(l.freedWake)
	var memo Memo
	var due time.Time // when the next pass is, whatever happens; zero = never
	var took time.Duration
	var end time.Time
	fruitless := 0
	for {
		if !l.awaitWork(ctx, end.Add(min(submissionRest*took, maxRest)), due) {
			return
		}
		begin := time.Now()
		if l.Plan(ctx, begin, &memo) {
			fruitless = 0
		} else {
			fruitless = min(fruitless+1, 10)
		}
		due = l.NextPass()
		end = time.Now()
		took = end.Sub(begin)
		rest := max(minRest, took)
		if fruitless > 0 {
			// A plan with no effect would be made again at once, and fill the
			// log.
			rest = max(rest, 50*time.Millisecond<<fruitless)
			wake(l.freedWake)
		}
		if !pause(ctx, min(rest, maxRest)) {
			return
		}
	}
}

// awaitWork waits until there is something to plan: at once when something came
// free or a time has come, after the rest when jobs were added. It returns
// false when ctx has ended.
func (l *Leader) awaitWork(ctx context.Context, rested, due time.Time) bool {
	timeComes, stop := at(due)
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.freedWake:
	case <-timeComes:
	case <-l.queuedWake:
		timer := time.NewTimer(time.Until(rested))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-l.freedWake:
		case <-timer.C:
		}
	}
	select {
	case <-l.queuedWake: // the plan to be made has these jobs too
	default:
	}
	return true
}

// Memo is what one pass leaves for the next, for speed only.
type Memo struct {
	snapshot  state.SnapshotMemo
	plan      sched.Memo
	predicted predicted
}

// Plan makes one scheduling pass, now being the wall clock's time. It returns
// false when a plan had no effect.
func (l *Leader) Plan(ctx context.Context, now time.Time, memo *Memo) bool {
	view, begin := l.cluster.View(), time.Now()
	// The log's time never goes back. A clock that is behind it would have starts planned
	// that the log takes for too late, again and again.
	now = time.UnixMilli(logTime(view, now))
	l.nextPass.Store(0)
	if l.holdAfterRestore(view) {
		return true
	}
	view, ended := l.endReclaims(ctx, view, now)
	if !ended {
		return false
	}
	view, kept := l.keepHours(ctx, view, now)
	if !kept {
		return false
	}
	view, onward := l.endReservations(ctx, view, now)
	if !onward {
		return false
	}
	byTime := earlier(earlier(l.hoursMS, view.ReclaimsEndMS()), view.ReservationsChangeMS(now.UnixMilli()))
	l.nextPass.Store(byTime)
	view = l.endLate(ctx, view, now)
	l.pullOn(ctx, view)
	if !view.Wants() {
		l.last.Store(nil)
		return true
	}
	snapshot := l.snapshotAfter(memo, view, now)
	if len(snapshot.Waiting) == 0 && !mayContinue(&snapshot) {
		l.last.Store(nil)
		return true
	}
	var plan sched.Plan
	plan, memo.plan = sched.Schedule(snapshot, memo.plan)
	l.last.Store(newLastPlan(&snapshot, &plan))
	l.nextPass.Store(earliest(plan.NextMS, byTime, view.LatestStart(), view.HabitsDueMS(now.UnixMilli()), outlastedMS(&snapshot)))
	took := time.Since(begin)
	l.metrics.pass.Observe(took.Seconds())
	l.work.Pass(begin, took, len(snapshot.Waiting))
	l.pullEarly(ctx, view, &snapshot, &plan.Promises)
	l.work.Add(tally.Jobs{Backfilled: backfilled(&snapshot, &plan)})
	l.log.Debug("scheduling pass", "waiting", len(snapshot.Waiting), "starts", len(plan.Starts), "preemptions", len(plan.Preemptions), "took", took)
	if len(plan.Starts)+len(plan.Preemptions)+len(plan.Continues) == 0 {
		return true
	}
	starts, pulling := l.pullFirst(ctx, view, state.PlanToCommand(&snapshot, &plan).Starts)
	done := l.place(ctx, starts) || pulling
	done = l.continueJobs(ctx, view, &plan) || done
	return l.preempt(ctx, view, &snapshot, &plan) || done
}

// Snapshot is what a plan of a View is made from, now being the wall clock's time.
func (l *Leader) Snapshot(view *state.View, now time.Time) sched.Snapshot {
	return l.snapshotAfter(new(Memo), view, now)
}

func (l *Leader) snapshotAfter(memo *Memo, view *state.View, now time.Time) (snapshot sched.Snapshot) {
	snapshot, memo.snapshot = view.SchedSnapshotAfter(memo.snapshot, logTime(view, now), l.told(view, now))
	l.predicting.fill(view, &snapshot, memo)
	snapshot.Promises = l.last.Load().promisesFor(&snapshot)
	return snapshot
}

// place commits starts and reports whether any took effect.
func (l *Leader) place(ctx context.Context, starts []state.StartOrder) bool {
	started := 0
	for chunk := range slices.Chunk(starts, bounds.MaxStarts) {
		result, ok := l.propose(ctx, state.PlaceJobs{Starts: chunk})
		if !ok {
			return started > 0
		}
		for _, start := range result.Starts {
			if start.Dropped != "" {
				l.log.Debug("a planned start no longer fits", "job", start.Asked, "reason", start.Dropped)
				continue
			}
			started++
			l.log.Info("job starts", "job", start.Job, "epoch", start.Epoch)
		}
	}
	if started == 0 && len(starts) > 0 {
		l.log.Warn("no start of a plan took effect; planning again shortly", "starts", len(starts))
	}
	return started > 0
}

// Overlay is the priority of a waiting job, and why it waits, if the last plan
// says so; it returns false when the plan does not say why.
func (l *Leader) Overlay(job uint32) (state.Overlay, bool) {
	last := l.last.Load()
	if last == nil {
		return state.Overlay{}, false
	}
	if last.awaited != "" {
		return awaitedOverlay(last.awaited), true
	}
	var overlay state.Overlay
	if at, found := slices.BinarySearch(last.jobs, sched.JobID(job)); found {
		overlay.Priority = last.priorities[at]
	}
	moved := last.lost(sched.JobID(job))
	if planned := last.planned(sched.JobID(job)); planned != nil {
		overlay.EstimatedStartMS, overlay.ScheduledNodes, moved = planned.StartMS, last.nodesOf(planned), planned.Moved
	}
	byPrediction := last.snapshot.Backfill.FirstByLimits && last.planned(sched.JobID(job)) != nil && !last.planned(sched.JobID(job)).Sure
	at, found := slices.BinarySearchFunc(last.reasons, sched.JobID(job), func(reason sched.Reason, id sched.JobID) int {
		return cmp.Compare(reason.Job, id)
	})
	if !found {
		return overlay, false
	}
	reason := last.reasons[at]
	overlay.Reason, overlay.Detail = explain.Display(reason, last.snapshot), explain.Sentence(reason, last.snapshot)
	overlay.NamesOthers = reason.NamesOthers() || moved.Job != 0
	if byPrediction {
		overlay.Detail += "; its planned start goes by predicted run times"
	}
	if why := explain.Moved(moved, overlay.EstimatedStartMS); why != "" {
		overlay.Detail += "; " + why
	}
	return overlay, true
}

// lastPlan is kept to say why a job waits. The words are made on request: there
// may be very many reasons and few readers.
type lastPlan struct {
	snapshot   sched.Snapshot // all that the words name
	reasons    []sched.Reason // ascending by job
	jobs       []sched.JobID  // that waited, ascending
	priorities []uint32       // of them
	promises   sched.Promises // with positions in the snapshot
	awaited    string         // nodes without whose word there is no plan; "" = none
}

func newLastPlan(snapshot *sched.Snapshot, plan *sched.Plan) *lastPlan {
	last := &lastPlan{snapshot: *snapshot, reasons: plan.Reasons, jobs: make([]sched.JobID, len(snapshot.Waiting)), priorities: plan.Priorities, promises: plan.Promises}
	last.snapshot.Shapes, last.snapshot.Waiting, last.snapshot.Running, last.snapshot.Promises = nil, nil, nil, sched.Promises{} // which are many
	for i := range snapshot.Waiting {                                                                                            // as the state lists them, ascending
		last.jobs[i] = snapshot.Waiting[i].ID
	}
	return last
}
