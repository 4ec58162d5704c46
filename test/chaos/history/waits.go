package history

import (
	"cmp"
	"slices"
)

// This file checks what jobs wait for: other jobs, licenses, the throttle of
// their array; and who may make room for whom.

// Wait is what a job waits for of another, in sbatch's word; "" = nothing.
type Wait string

// What a job may wait for. A task of an array waits for that of the same index
// by AfterCorr.
const (
	AfterOK    Wait = "afterok"
	AfterNotOK Wait = "afternotok"
	AfterAny   Wait = "afterany"
	AfterCorr  Wait = "aftercorr"
)

// neverSatisfied is why a job is cancelled that can never start.
const neverSatisfied = "DependencyNeverSatisfied"

// checkWait: a job begins after all runs of that which it waits for, and only
// if that ended as it should. One that was requeued by somebody may have run
// again since.
func (c *checker) checkWait(job *Job, s *Submission, runs []*Run) {
	parents := c.awaited(job, s)
	if len(parents) == 0 || slices.ContainsFunc(parents, func(p *Job) bool { return c.asked(Requeue, p, 0) }) {
		return
	}
	well := !slices.ContainsFunc(parents, func(p *Job) bool { return p.State != "COMPLETED" })
	never := s.After == AfterNotOK && well || (s.After == AfterOK || s.After == AfterCorr) && !well
	switch {
	case len(runs) > 0 && never:
		c.wrong(TooEarly, job.ID, "%s: it was to wait for %s:%d, which can never be", runs[0].What(), s.After, s.Parent)
	case job.Reason == neverSatisfied && !never:
		c.wrong(WrongEnd, job.ID, "job %d (%s) is cancelled as if %s:%d could never be", job.ID, job.Name, s.After, s.Parent)
	}
	for _, p := range parents {
		for _, run := range c.runs[p.ID] {
			if len(runs) > 0 && run.Last >= runs[0].Start {
				c.wrong(TooEarly, job.ID, "%s: it began %s before the last sign of life of %s, for which it was to wait (%s)", runs[0].What(), seconds(run.Last-runs[0].Start), run.What(), s.After)
			}
		}
	}
}

// awaited are the records that a job waits for: of an array all, or that of the
// same task.
func (c *checker) awaited(job *Job, s *Submission) (parents []*Job) {
	if s.After == "" {
		return nil
	}
	for i := range c.h.Jobs {
		other := &c.h.Jobs[i]
		if other.number() == s.Parent && (s.After != AfterCorr || job.Index < 0 || other.Index == job.Index) {
			parents = append(parents, other)
		}
	}
	return parents
}

// span is how long a run showed signs of life, and how much it holds of
// something.
type span struct {
	run      *Run
	amount   int
	from, to int64
}

// spans are those of the runs that hold something, each on all its nodes.
func (c *checker) spans(amount func(s *Submission, run *Run) int) []span {
	type key struct{ job, epoch uint32 }
	at := map[key]int{}
	var spans []span
	for i := range c.h.Runs {
		run := &c.h.Runs[i]
		s := c.submissions[run.Name]
		if s == nil || amount(s, run) == 0 {
			continue
		}
		k := key{run.Job, run.Epoch}
		if _, known := at[k]; !known {
			at[k] = len(spans)
			spans = append(spans, span{run, amount(s, run), run.Start, run.Last})
		}
		one := &spans[at[k]]
		one.from, one.to = min(one.from, run.Start), max(one.to, run.Last)
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// checkTogether: what runs together never holds more of something than there
// is. The first that does not fit is told.
func (c *checker) checkTogether(what string, most int, spans []span) {
	for i := range spans {
		used := 0
		for _, other := range spans[:i+1] {
			if other.to >= spans[i].from {
				used += other.amount
			}
		}
		if used > most {
			c.wrong(LimitPassed, spans[i].run.Job, "%s: it began when %d of %s were in use with it, of %d", spans[i].run.What(), used, what, most)
			return
		}
	}
}

// checkShared looks at licenses and throttles.
func (c *checker) checkShared() {
	c.checkTogether("the licenses", c.h.Licenses, c.spans(func(s *Submission, _ *Run) int { return s.Licenses }))
	for i := range c.h.Submissions {
		array := &c.h.Submissions[i]
		if array.Throttle == 0 || array.Job == 0 {
			continue
		}
		c.checkTogether("the array's tasks", array.Throttle, c.spans(func(_ *Submission, run *Run) int {
			if run.Array == array.Job {
				return 1
			}
			return 0
		}))
	}
}

// madeRoom reports whether a job that may preempt others was waiting at a time, or
// had begun not long before: elsewhere then.
func (c *checker) madeRoom(at int64) bool {
	for i := range c.h.Submissions {
		s := &c.h.Submissions[i]
		if !s.Urgent || s.Asked > at {
			continue
		}
		begun := int64(0)
		for _, job := range c.byName[s.Name] {
			for _, run := range c.runs[job.ID] {
				if begun == 0 || run.Start < begun {
					begun = run.Start
				}
			}
		}
		if begun == 0 || begun >= at-aftermath {
			return true
		}
	}
	return false
}

// preempted reports whether a run may have ended to make room: it was told to end,
// or just did, while somebody waited who may ask for that.
func (c *checker) preempted(s *Submission, run *Run) bool {
	return !s.Urgent && (run.Term || run.Ended) && c.madeRoom(run.Last)
}
