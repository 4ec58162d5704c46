package ordered

import (
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// drawTimes has a job begin later, or end before some time. Its user goes by
// true time; the log's may be hours ahead of it.
func (w *World) drawTimes(in *intent) {
	switch w.rng.IntN(12) {
	case 0:
		in.spec.BeginMs = w.ahead(90 * time.Minute)
	case 1:
		in.spec.TimeLimitS = uint32((time.Hour + between(w.rng, 0, time.Hour)).Seconds())
		in.spec.DeadlineMs = w.ahead(2*time.Hour) + int64(in.spec.GetTimeLimitS())*1000
	}
	in.begins, in.deadlineMS = map[int]int64{}, in.spec.GetDeadlineMs()
	for _, index := range in.indices() {
		in.begins[index] = in.spec.GetBeginMs()
	}
}

// ahead is a moment within that time, on the clock that everybody agrees on.
func (w *World) ahead(most time.Duration) int64 {
	return w.wall().Add(between(w.rng, time.Second, most)).UnixMilli()
}

// checkTimes is asked of each start.
func (w *World) checkTimes(in *intent, job *state.Job) {
	for _, index := range indicesIn(job) {
		if early := in.begins[index] - job.Run.StartMS; early > 0 {
			w.fail("too early: job %d (%s) starts %d ms before its begin", job.ID, in.name, early)
		}
	}
	limitMS := int64(job.Spec.TimeLimitS) * 1000
	if image := job.Run.Restore; image != nil {
		limitMS = max(limitMS-image.RanMS, 60_000)
	}
	if over := job.Run.StartMS + limitMS - in.deadlineMS; in.deadlineMS != 0 && over > 0 {
		w.fail("too late: job %d (%s) starts, and may run until %d ms after its deadline", job.ID, in.name, over)
	}
}

// checkLate: a job is removed for its deadline only when it can not meet that
// any more.
func (w *World) checkLate(in *intent, job *state.Job) {
	if job.Run != nil || in.deadlineMS == 0 || job.End.EndMS+int64(job.Spec.TimeLimitS)*1000 <= in.deadlineMS {
		w.fail("too soon: job %d (%s) is removed for its deadline, which it could still meet", job.ID, in.name)
	}
}
