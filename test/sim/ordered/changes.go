package ordered

import (
	"fmt"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// change is something that a user has done to a job.
type change struct {
	name string
	kind history.Kind
	// listed: the history knows what it does to the job as a whole.
	listed  bool
	command func(targets []state.Target) state.Command
	took    func(*state.Result)
}

// meddle has a user change their mind about a job now and then.
func (w *World) meddle(in *intent) {
	whole := in.spec.GetArray() == nil
	release := change{"release", history.Query, false, func(t []state.Target) state.Command {
		return state.ReleaseJobs{Targets: t, UID: in.uid}
	}, nil}
	hold := change{"hold", history.Query, false, func(t []state.Target) state.Command {
		return state.HoldJobs{Targets: t, UID: in.uid}
	}, nil}
	w.meddleWithRuns(in)
	switch n := w.rng.IntN(24); {
	case n < 3:
		w.later(in, nil, change{"cancel", history.Cancel, whole, func(t []state.Target) state.Command {
			return state.CancelJobs{Targets: t, UID: in.uid}
		}, nil})
	case n < 6:
		w.later(in, nil, change{"requeue", history.Requeue, whole, func(t []state.Target) state.Command {
			return state.RequeueJobs{Targets: t, UID: in.uid}
		}, nil})
	case n < 7:
		w.later(in, nil, change{"requeuehold", history.Requeue, whole, func(t []state.Target) state.Command {
			return state.RequeueJobs{Targets: t, UID: in.uid, Hold: true}
		}, nil})
		w.later(in, nil, release)
	case n < 9:
		w.later(in, nil, hold)
		w.later(in, nil, release)
	case n < 12:
		w.update(in)
	case n < 14 && !whole: // some tasks of an array
		index := uint32(pick(w.rng, in.indices()))
		some := []ranges.Range{{First: index, Last: index + uint32(w.rng.IntN(2)), Step: 1}}
		w.later(in, some, hold)
		w.later(in, some, release)
	case n < 16 && !whole:
		index := uint32(pick(w.rng, in.indices()))
		w.later(in, []ranges.Range{{First: index, Last: index, Step: 1}}, change{"cancel", history.Query, false, func(t []state.Target) state.Command {
			return state.CancelJobs{Targets: t, UID: in.uid}
		}, nil})
	}
}

// update changes what a job waits for, as gcontrol update does.
func (w *World) update(in *intent) {
	var c state.JobChange
	name, took := "", func(*state.JobResult) {}
	switch w.rng.IntN(4) {
	case 0:
		name, c.Dependencies = "Dependency=", &state.Dependencies{}
		took = func(*state.JobResult) { in.wishes, in.alone = nil, false }
	case 1:
		begin := w.ahead(time.Hour)
		name, c.BeginMS = "StartTime", &begin
		took = func(one *state.JobResult) { // not of the tasks that run
			for _, index := range indicesIn(&state.Job{Array: one.Array, HasTask: one.HasTask, Task: one.Task, Tasks: one.Tasks}) {
				in.begins[index] = begin
			}
		}
	case 2:
		if in.spec.GetArray() == nil {
			return
		}
		most := uint32(w.rng.IntN(4))
		name, c.MaxRunning = "ArrayTaskThrottle", &most
	default:
		limit := uint32((30*time.Minute + between(w.rng, 0, time.Hour)).Seconds())
		name, c.TimeLimitS = "TimeLimit", &limit
	}
	w.later(in, nil, change{"update " + name, history.Query, false, func(t []state.Target) state.Command {
		return state.UpdateJobs{Targets: t, UID: in.uid, Change: c}
	}, func(result *state.Result) {
		for i := range result.Jobs {
			if result.Jobs[i].Code == state.OK {
				took(&result.Jobs[i])
			}
		}
	}})
}

// later has a user ask for a change of a job, or of some tasks of it, and look
// what came of it.
func (w *World) later(in *intent, tasks []ranges.Range, c change) {
	w.after(between(w.rng, 0, 20*time.Minute), func() { w.askFor(in, tasks, c) })
}

func (w *World) askFor(in *intent, tasks []ranges.Range, c change) {
	job, listed := in.submit.jobID, in.spec.GetArray() == nil
	what := fmt.Sprintf("%s %d", c.name, job)
	w.trace("user", "%s", what)
	w.ask(&request{
		what: what, kind: c.kind, listed: c.listed, job: job, took: c.took,
		command: func() (state.Command, error) { return c.command([]state.Target{{Job: job, Tasks: tasks}}), nil },
		then: func() {
			w.ask(&request{what: fmt.Sprintf("query %d", job), kind: history.Query, listed: listed, job: job})
		},
	})
}

// mayBeRefused says whether a submission was refused for what happened while it
// was under way: what it waits for was forgotten, or its deadline came too
// near, by the log's time.
func (w *World) mayBeRefused(in *intent) bool {
	if strings.Contains(in.submit.refused, "Incorrect deadline") {
		return in.deadlineMS != 0
	}
	if !strings.Contains(in.submit.refused, spec.DependencyProblem) {
		return false
	}
	for i := range in.wishes {
		if w.forgotten[in.wishes[i].on.job] {
			return true
		}
	}
	return false
}
