package ordered

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// wish is one condition on another job, as the user who typed it means it.
type wish struct {
	kind  spec.DependencyKind
	on    *intent
	index int // the task of on's array that is meant; plain = all of it
	delay time.Duration
	// verdicts is what came of it: for aftercorr by task, else under plain.
	verdicts map[int]verdict
}

// verdict is what is decided of a condition, once and for all.
type verdict struct {
	outcome outcome
	fromMS  int64 // log time from which on it counts
}

type outcome uint8

const (
	undecided outcome = iota
	met
	never
)

// longestDelay is that of an "after:JOB+time", in minutes.
const longestDelay = 10

// drawDependencies has a job wait for others whose numbers are known to users.
func (w *World) drawDependencies(in *intent) {
	known := w.recent()
	if w.rng.IntN(10) < 3 && len(known) > 0 {
		in.kill = w.rng.IntN(2) == 0
		for range 1 + w.rng.IntN(2) {
			in.wishes = append(in.wishes, w.newWish(in, pick(w.rng, known)))
			if in.wishes[0].kind == spec.AfterCorr {
				break
			}
		}
		in.any = len(in.wishes) > 1 && w.rng.IntN(2) == 0
	}
	if w.rng.IntN(10) == 0 && in.spec.GetArray() == nil && len(in.wishes) == 0 {
		in.spec.Name = fmt.Sprintf("nightly-%d", w.rng.IntN(2))
		in.alone = w.rng.IntN(3) > 0
	}
	words := make([]string, 0, len(in.wishes)+1)
	for i := range in.wishes {
		words = append(words, in.wishes[i].text())
	}
	if in.alone {
		words = append(words, "singleton")
	}
	in.spec.Dependency = strings.Join(words, map[bool]string{false: ",", true: "?"}[in.any])
	if in.kill {
		in.spec.KillOnInvalidDependency = &in.kill
	}
}

// recent are some of the jobs that were accepted last, and are not forgotten.
func (w *World) recent() (known []*intent) {
	const most = 12
	for i := len(w.intentList) - 1; i >= 0 && len(known) < most; i-- {
		in := w.intentList[i]
		if in.submit != nil && in.submit.done && in.submit.jobID != 0 && !w.forgotten[in.submit.jobID] {
			known = append(known, in)
		}
	}
	return known
}

func (w *World) newWish(in, on *intent) wish {
	x := wish{kind: spec.DependencyKind(1 + w.rng.IntN(4)), on: on, index: plain, verdicts: map[int]verdict{}}
	if on.spec.GetArray() != nil {
		switch w.rng.IntN(3) {
		case 0:
			x.index = pick(w.rng, on.indices())
		case 1:
			if len(in.wishes) == 0 && in.spec.GetMinNodes() == 0 { // an array alike, task by task
				x.kind = spec.AfterCorr
				in.spec.Array = &pb.ArraySpec{Ranges: on.spec.GetArray().GetRanges()}
			}
		}
	}
	if x.kind == spec.After && w.rng.IntN(2) == 0 {
		x.delay = time.Duration(1+w.rng.IntN(longestDelay)) * time.Minute
	}
	return x
}

func (x *wish) text() string {
	text := fmt.Sprintf("%v:%d", x.kind, x.on.submit.jobID)
	if x.index != plain {
		text += fmt.Sprintf("_%d", x.index)
	}
	if x.delay > 0 {
		text += fmt.Sprintf("+%d", int(x.delay.Minutes()))
	}
	return text
}

// judge decides what can be decided of a condition of a job.
func (w *World) judge(in *intent, x *wish) {
	if x.kind == spec.AfterCorr {
		for _, index := range in.indices() {
			if other := w.lives[taskOf{x.on.job, index}]; other.over() && x.verdicts[index].outcome == undecided {
				x.verdicts[index] = verdict{outcome: decided(other.well)}
			}
		}
		return
	}
	if x.verdicts[plain].outcome != undecided {
		return
	}
	indices := x.on.indices()
	if x.index != plain {
		indices = []int{x.index}
	}
	begun, over, well, lastMS := true, true, true, int64(0)
	for _, index := range indices {
		other := w.lives[taskOf{x.on.job, index}]
		begun, over, well = begun && other.begun(), over && other.over(), well && other.well
		lastMS = max(lastMS, other.beganMS)
	}
	switch {
	case x.kind == spec.After && begun:
		x.verdicts[plain] = verdict{met, lastMS + x.delay.Milliseconds()}
	case x.kind == spec.After || !over:
	case x.kind == spec.AfterAny:
		x.verdicts[plain] = verdict{outcome: met}
	default:
		x.verdicts[plain] = verdict{outcome: decided(well == (x.kind == spec.AfterOK))}
	}
}

func decided(as bool) outcome {
	if as {
		return met
	}
	return never
}

// standing is how far all that a task of a job waits for is.
func (in *intent) standing(index int) verdict {
	var earliest, latest int64
	count := map[outcome]int{}
	for i := range in.wishes {
		v, byTask := in.wishes[i].verdicts[index], in.wishes[i].kind == spec.AfterCorr
		if !byTask {
			v = in.wishes[i].verdicts[plain]
		}
		if v.outcome == met && (count[met] == 0 || v.fromMS < earliest) {
			earliest = v.fromMS
		}
		latest = max(latest, v.fromMS)
		count[v.outcome]++
	}
	switch {
	case in.any && count[met] > 0:
		return verdict{met, earliest}
	case count[met] == len(in.wishes):
		return verdict{met, latest}
	case in.any && count[never] == len(in.wishes), !in.any && count[never] > 0:
		return verdict{outcome: never}
	}
	return verdict{}
}

// decide looks at the jobs that wait for those that moved, and has those that
// can never start cancelled at once, if they asked for that.
func (w *World) decide(moved []uint32) {
	for _, number := range moved {
		for _, in := range w.dependents[number] {
			w.decideFor(in)
		}
	}
}

func (w *World) decideFor(in *intent) {
	for i := range in.wishes {
		w.judge(in, &in.wishes[i])
	}
	for _, index := range in.indices() {
		l := w.lives[taskOf{in.job, index}]
		if in.kill && l.phase == state.Waiting && !l.again && in.standing(index).outcome == never {
			w.fail("waits in vain: job %d (%s) was to be cancelled when what it waits for (%s) could never be", in.job, in.name, in.spec.GetDependency())
		}
	}
}

// checkInvalid: a job is cancelled for its dependency only if it asked for that
// and the dependency can never be met.
func (w *World) checkInvalid(in *intent, job *state.Job) {
	for _, index := range indicesIn(job) {
		if !in.kill || in.standing(index).outcome != never {
			w.fail("too soon: job %d (%s) is cancelled for what it waits for (%s), which may still be so", job.ID, in.name, in.spec.GetDependency())
		}
	}
}

// checkDependencies is asked of each start.
func (w *World) checkDependencies(in *intent, job *state.Job) {
	if job.Restarts > 0 {
		return // it has waited for them before its first run
	}
	for _, index := range indicesIn(job) {
		if v := in.standing(index); v.outcome != met || v.fromMS > job.Run.StartMS {
			w.fail("too early: job %d (%s) starts, and what it waits for (%s) is not so", job.ID, in.name, in.spec.GetDependency())
		}
	}
}

// checkAlone is asked of each start: that of a singleton when no job of its name
// and user has nodes, or waits and is older. Those after it in the plan had none
// then.
func (w *World) checkAlone(in *intent, after []state.StartResult) {
	for _, other := range w.intentList {
		startsLater := func(s state.StartResult) bool { return s.Job == other.job }
		if !in.alone || other == in || other.job == 0 || other.uid != in.uid || other.spec.GetName() != in.spec.GetName() || slices.ContainsFunc(after, startsLater) {
			continue
		}
		if l := w.lives[taskOf{other.job, plain}]; l.holds() || l.phase == state.Waiting && other.job < in.job {
			w.fail("too early: job %d starts, a singleton, beside job %d of its name", in.job, other.job)
		}
	}
}

// hopeless says whether a waiting job waits for what can never be, by what
// really happened; and that the state says so too.
func (w *World) hopeless(job *state.Job, nowMS int64) bool {
	in := w.intents[job.Own().Comment]
	task := taskOf{in.job, indicesIn(job)[0]}
	if w.lives[task].again || in.standing(task.index).outcome != never {
		return false
	}
	if word, _ := job.ReasonWord(nowMS); word != "DependencyNeverSatisfied" && job.Held == 0 {
		w.fail("waits in vain: job %d waits for what can never be (%s), and is said to wait for %s", job.ID, in.spec.GetDependency(), word)
	}
	return true
}
