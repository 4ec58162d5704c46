package history

// This file checks what jobs did that were saved and resumed from an image: they
// count in their memory, so that their records say from where they continued.

// checkMoved: a job continues with the number after the last it wrote. It may go back
// only if it may be requeued and something ended its run, and never forward.
func (c *checker) checkMoved(job *Job, s *Submission, run, next *Run) {
	switch {
	case next.First > run.Count+1:
		c.wrong(Gap, job.ID, "%s continued at %d, and %s had come to %d", next.What(), next.First, run.What(), run.Count)
	case next.First == 0: // it was ended before it wrote a number
	case next.First <= run.Count && !s.Requeue:
		c.wrong(Repeated, job.ID, "%s continued at %d, and %s had come to %d; the job may not be requeued", next.What(), next.First, run.What(), run.Count)
	case next.First <= run.Count && !c.explained(s, run, next.Start) && !c.preempted(s, run) && !c.savedOften(job, s):
		c.wrong(Repeated, job.ID, "%s continued at %d, and %s had come to %d; no fault on %v between %d and %d explains it", next.What(), next.First, run.What(), run.Count, run.Nodes, run.Start, run.Last)
	case !c.mayMove(job, s, run, next.Start):
		c.wrong(Touched, job.ID, "%s resumed from an image of %s, and neither a request nor a fault explains it", next.What(), run.What())
	}
}

// mayMove reports whether a job may have resumed from an image of a run until a time:
// somebody asked for that, or something ended the run.
func (c *checker) mayMove(job *Job, s *Submission, run *Run, until int64) bool {
	return c.reclaimed(run) || s.Counts > 0 && (c.asked(Move, job, 0) || c.explained(s, run, until) || c.preempted(s, run))
}

// savedOften reports whether a job that was to be moved may have lost its newest image,
// or all: it is not to be found out here which of the faults, anywhere, kept it from
// being restored.
func (c *checker) savedOften(job *Job, s *Submission) bool {
	return s.Requeue && s.Counts > 0 && c.asked(Move, job, 0) && len(c.h.Faults) > 0
}

// checkCounted: the script of a job counts from 1, and one that is complete has
// counted to its end.
func (c *checker) checkCounted(job *Job, s *Submission, runs []*Run) {
	if s.Counts == 0 {
		return
	}
	for _, run := range runs {
		if run.Batch && !run.Moved && run.First > 1 {
			c.wrong(Gap, job.ID, "%s began at %d", run.What(), run.First)
		}
	}
	if script := c.lastScript(job, s, runs); job.State == "COMPLETED" && script != nil && script.Ended && script.Count != s.Counts && !(script.Moved && script.First == 0) {
		c.wrong(Gap, job.ID, "%s is complete, and counted to %d of %d", script.What(), script.Count, s.Counts)
	}
}

// MostMoves is how often in all a job with devices resumed from an image that did so
// most often.
func (h *History) MostMoves() (most int) {
	times := map[uint32]int{}
	for i := range h.Runs {
		if run := &h.Runs[i]; run.Batch && run.Moved && len(run.Devices) > 0 {
			times[run.Job]++
			most = max(most, times[run.Job])
		}
	}
	return most
}

// Moves are how often a job resumed from an image: with the next number, with one
// that it had written already, or without one.
func (h *History) Moves() (exactly, back, silent int) {
	c := &checker{h: h, submissions: map[string]*Submission{}, jobs: map[uint32]*Job{}, byName: map[string][]*Job{}, runs: map[uint32][]*Run{}}
	c.index()
	for _, runs := range c.runs {
		var last *Run
		for _, run := range runs {
			switch {
			case !run.Batch:
				continue
			case !run.Moved || last == nil:
			case run.First == 0:
				silent++
			case run.First == last.Count+1:
				exactly++
			default:
				back++
			}
			last = run
		}
	}
	return exactly, back, silent
}
