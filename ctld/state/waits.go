package state

import (
	"math"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// This file says what keeps a job from starting other than a lack of resources:
// a hold, its begin time, its dependencies, its deadline; and how long it has
// waited without any of these, which is its age (priority_multifactor, "Age
// Factor").

// indexWaits tells an index how a record is found: by the jobs it waits for,
// its name, and until when it has to start.
func (t *tables) indexWaits(job *Job, change func(index uint64Set, key uint64)) {
	switch job.Phase {
	case Finished:
		return
	case Running, Ending:
		change(t.activeNames, pair(nameKey(job), job.ID))
		return
	}
	change(t.waitingNames, pair(nameKey(job), job.ID))
	for _, one := range job.Dependencies.List {
		if one.Kind == spec.Singleton {
			change(t.singletons, pair(nameKey(job), job.ID))
		} else if one.State == Unfulfilled {
			change(t.dependents, pair(one.Job, job.ID))
		}
	}
	if job.DeadlineMS != 0 {
		second := min(max(job.LatestStartMS(), 0)/1000, math.MaxUint32)
		change(t.late, pair(uint32(second), job.ID))
	}
}

// LatestStartMS is until when a job with a deadline must start, so that its
// time limit ends before the deadline; without a limit it is the deadline
// itself.
func (j *Job) LatestStartMS() int64 {
	limit := j.leastLeftS()
	if limit == sched.Unlimited {
		return j.DeadlineMS
	}
	return j.DeadlineMS - int64(limit)*1000
}

// LatestStart is the earliest time from which on a waiting job can no longer meet
// its deadline, in Unix milliseconds; 0 when none has one.
func (t *tables) LatestStart() int64 {
	key, _, found := t.late.Min()
	if !found {
		return 0
	}
	job, _ := t.live.Get(uint32(key))
	return job.LatestStartMS()
}

// TimeLimitS is the limit in force: for a run with a deadline, the time left
// until then if that is less. The time for which it was suspended does not
// count, on its nodes either.
func (j *Job) TimeLimitS() uint32 {
	if !j.endsByDeadline() {
		return j.limitLeftS()
	}
	return uint32(max((j.DeadlineMS-j.Run.turnMS()+j.Run.RanMS)/1000, 1))
}

// endsByDeadline reports whether a run ends by its deadline before its time limit.
func (j *Job) endsByDeadline() bool {
	limit := j.limitLeftS()
	return j.DeadlineMS != 0 && j.Run != nil &&
		(limit == sched.Unlimited || j.DeadlineMS < j.Run.turnMS()-j.Run.RanMS+int64(limit)*1000)
}

// limitLeftS is the time limit of the present or next run, minus what the job
// had run when the image was made that it resumes from.
func (j *Job) limitLeftS() uint32 {
	return j.leftS(j.limitS())
}

// leftS is a time limit minus that.
func (j *Job) leftS(limitS uint32) uint32 {
	var from *Image
	switch images := j.Images(); {
	case j.Run != nil:
		from = j.Run.Restore
	case j.Phase == Waiting && len(images) > 0: // an older one leaves it less to do with
		from = &images[0]
	}
	switch {
	case from == nil:
		return limitS
	case j.Run != nil && j.Run.Moved: // it begins when its processes are back
		return from.exactlyLeftS(limitS)
	}
	return from.limitLeftS(limitS)
}

// eligible reports whether only its begin time, or the delay of a dependency,
// keeps a waiting job from starting, and until when.
func (j *Job) eligible() (fromMS int64, is bool) {
	if j.Phase != Waiting || j.Held != sched.NotHeld {
		return 0, false
	}
	state, atMS := j.Dependencies.standing()
	return max(j.BeginMS, atMS), state == Fulfilled
}

// AgeMS is how long a waiting job has been eligible at a time.
func (j *Job) AgeMS(nowMS int64) int64 {
	if _, is := j.eligible(); !is {
		return j.AgedMS
	}
	return j.AgedMS + max(nowMS-j.EligibleMS, 0)
}

// keepAge fills in since when a changed job is eligible, and how long it was
// eligible before. Time before a requeue does not count.
func (s *State) keepAge(before, after *Job) {
	if after.Phase != Waiting || before.Phase != Waiting {
		return
	}
	from, was := before.eligible()
	at, is := after.eligible()
	if was == is && from == at {
		return
	}
	if was {
		after.AgedMS += max(s.timeMS-before.EligibleMS, 0)
	}
	if is {
		after.EligibleMS = max(s.timeMS, at)
	}
}

// checkEligible says why a job may not start now; "" when it may.
func (s *State) checkEligible(job *Job) string {
	now := *job
	if job.Dependencies.has(spec.Singleton) {
		s.judgeSingleton(&now) // one of the same plan may just have started
	}
	state, atMS := now.Dependencies.standing()
	switch {
	case job.Held != sched.NotHeld:
		return "is held"
	case state != Fulfilled || atMS > s.timeMS:
		return "waits for other jobs"
	case job.BeginMS > s.timeMS:
		return "may not begin yet"
	case job.DeadlineMS != 0 && job.LatestStartMS() < s.timeMS:
		return "cannot meet its deadline any more"
	}
	if code, _ := s.reservationWait(job, s.timeMS); code != sched.ReasonNone {
		return "waits for its reservation"
	}
	return ""
}

// schedWaits fills in what a waiting job waits for other than resources.
func (j *Job) schedWaits(nowMS int64, out *sched.Job) {
	out.AgeMS = j.AgeMS(nowMS)
	out.DeadlineMS = j.DeadlineMS
	out.BeginMS = j.BeginMS
	switch state, atMS := j.Dependencies.standing(); {
	case state == Failed:
		out.Dependency = sched.DependencyNeverSatisfied
	case state == Unfulfilled:
		out.Dependency = sched.DependencyUnfulfilled
	case atMS > nowMS:
		out.Dependency = sched.DependencyUnfulfilled
		out.BeginMS = max(j.BeginMS, atMS)
	}
	if out.Tasks > 1 && j.Dependencies.has(spec.Singleton) { // one at a time
		out.Tasks, out.Throttled = 1, true
	}
}

// waitWord is why a waiting job may not start, as far as the state knows.
func (j *Job) waitWord(nowMS int64) (word, sentence string) {
	if word, sentence = explain.Hold(j.Held); word != "" {
		return word, sentence
	}
	text := j.Dependencies.Text(nowMS, nil)
	if text == "" {
		return "", ""
	}
	text = bounds.Clip(text, 256)
	if state, _ := j.Dependencies.standing(); state == Failed {
		return sched.ReasonDependencyNeverSatisfied.String(), "waits for what can never be, " + text + ": cancel it, or change its dependency with gcontrol update"
	}
	return sched.ReasonDependency.String(), "waits for other jobs: " + text
}
