package history

import (
	"maps"
	"math"
	"slices"
)

// checkJob compares the end of one job in the list with what it wrote down.
func (c *checker) checkJob(job *Job) {
	s := c.submissions[job.Name]
	if s == nil || s.Refused {
		return // told already
	}
	runs := c.runs[job.ID]
	if job.Completing || !final[job.State] || job.Waiting != "" && job.State != "CANCELLED" {
		c.wrong(NotEnded, job.ID, "job %d (%s) is %s (%s) in the end: %s", job.ID, job.Name, job.State, job.Reason, job.Detail)
		return
	}
	c.checkEnd(job, s, c.lastScript(job, s, runs))
	c.checkRuns(job, s, runs)
	c.checkWait(job, s, runs)
	c.checkCounted(job, s, runs)
	if s.Nodes > 1 {
		c.checkGang(job, s, runs)
	}
}

var final = map[string]bool{
	"COMPLETED": true, "FAILED": true, "CANCELLED": true, "TIMEOUT": true, "NODE_FAIL": true, "OUT_OF_MEMORY": true,
	"PREEMPTED": true,
}

// lastScript is the record of the script in the job's last run; nil if it did
// not come to run. A script that ended before its job was saved has its end in an
// earlier run, because only process 1 is left to move, which reports that end.
func (c *checker) lastScript(job *Job, s *Submission, runs []*Run) *Run {
	var last *Run
	for _, run := range runs {
		switch {
		case !run.Batch:
			continue
		case run.Epoch == job.Epoch:
			return run
		}
		last = run
	}
	reported := job.State == "COMPLETED" || job.State == "FAILED" && job.Signal == 0
	if last != nil && last.Ended && reported && c.mayMove(job, s, last, math.MaxInt64) {
		return last
	}
	return nil
}

// checkEnd: the state in the list is what the record of the last run allows.
func (c *checker) checkEnd(job *Job, s *Submission, script *Run) {
	wrong := func(why string) {
		record := "it has no record of its last run"
		if script != nil {
			record = "its record has no end"
			if script.Ended {
				record = "its record ends with " + itoa(script.Code)
			}
		}
		c.wrong(WrongEnd, job.ID, "job %d (%s) is %s with %d:%d in run %d (%s, %s), and %s: %s", job.ID, job.Name, job.State, job.ExitCode, job.Signal, job.Epoch, job.Reason, job.Detail, record, why)
	}
	ended := script != nil && script.Ended
	switch job.State {
	case "COMPLETED":
		if !ended || script.Code != 0 {
			wrong("only a script that ended with 0 is complete")
		}
	case "FAILED":
		c.checkFailed(job, s, script, wrong)
	case "CANCELLED":
		if !c.asked(Cancel, job, 0) && (s.After == "" || job.Reason != neverSatisfied) {
			wrong("nobody asked for that")
		}
	case "PREEMPTED":
		switch {
		case s.Requeue:
			wrong("it was to be requeued")
		case script != nil && c.reclaimed(script):
		case s.Urgent || script != nil && !c.preempted(s, script):
			wrong("it was to make room for nobody")
		}
	case "TIMEOUT":
		if s.TimeLimit == 0 || script != nil && script.Last-script.Start < s.TimeLimit-2*second {
			wrong("it had not run that long")
		}
	case "NODE_FAIL":
		if s.Requeue {
			wrong("it was to be requeued")
		}
	default:
		wrong("no job of this test ends so")
	}
}

// checkFailed: a script that failed says with what; one that was killed says
// nothing. A gang's script may fail because its step did, with any code.
func (c *checker) checkFailed(job *Job, s *Submission, script *Run, wrong func(string)) {
	if script == nil { // it was killed before it wrote a line, or never began
		script = &Run{Nodes: job.Nodes, Start: s.Asked, Last: math.MaxInt64 - aftermath}
	}
	switch {
	case job.Signal != 0: // perhaps after its last line
		if !c.hit(script, script.Last+aftermath, Kills, true) {
			wrong("nothing killed it")
		}
	case !script.Ended:
		wrong("only a script that ends has an exit code")
	case script.Code != job.ExitCode:
		wrong("the exit codes differ")
	case script.Code != s.ExitCode && s.Nodes <= 1 && !script.Term:
		wrong("it was to end with " + itoa(s.ExitCode))
	case script.Code != s.ExitCode && !c.hit(script, script.Last+aftermath, Harmless, false):
		wrong("its step failed, and there was no fault")
	}
}

// checkRuns: a job runs again only when it was asked for, or may be requeued
// and something ended its former run.
func (c *checker) checkRuns(job *Job, s *Submission, runs []*Run) {
	epochs := map[uint32]*Run{}
	for _, run := range runs {
		if run.Batch {
			epochs[run.Epoch] = run
		}
	}
	sorted := slices.Sorted(maps.Keys(epochs))
	for i, epoch := range sorted {
		run := epochs[epoch]
		again := i+1 < len(sorted)
		asked := c.asked(Requeue, job, run.Start)
		// What a run has become may reach the controllers late, and be lost on
		// its way with a node: then the job runs once more.
		until := int64(math.MaxInt64)
		if again {
			until = epochs[sorted[i+1]].Start
		}
		early := again || job.State == "NODE_FAIL"
		if again && s.Counts > 0 && epochs[sorted[i+1]].Moved {
			c.checkMoved(job, s, run, epochs[sorted[i+1]])
			continue
		}
		switch {
		case asked:
		case again && c.savedOften(job, s):
		case again && !s.Requeue:
			c.wrong(BadRequeue, job.ID, "%s: the job ran again as run %d, though it may not be requeued", run.What(), sorted[i+1])
		case early && !c.explained(s, run, until) && !c.preempted(s, run):
			c.wrong(Touched, job.ID, "%s ended early (the job is %s: %s), and no fault on %v between %d and %d explains it", run.What(), job.State, job.Detail, run.Nodes, run.Start, run.Last)
		}
	}
}

// explained reports whether a fault may have ended a run early.
func (c *checker) explained(s *Submission, run *Run, until int64) bool {
	if s.Fence && s.Requeue && c.hit(run, until, Silences, true) {
		return true
	}
	return c.hit(run, until, Kills, true)
}

// hit reports whether there was a fault of at least that harm between the start of
// a run and a time, on one of the job's nodes if that matters.
func (c *checker) hit(run *Run, until int64, least Harm, onItsNodes bool) bool {
	return slices.ContainsFunc(c.h.Faults, func(f Fault) bool {
		if f.Harm < least || f.To < run.Start-aftermath || f.From > until {
			return false
		}
		there := func(node string) bool { return slices.Contains(f.Nodes, node) }
		return !onItsNodes || f.Everywhere || run.Moved && len(run.Nodes) == 0 || slices.ContainsFunc(run.Nodes, there)
	})
}

// asked reports whether somebody made the request about a job after a time, or was
// at it.
func (c *checker) asked(verb Verb, job *Job, after int64) bool {
	return slices.ContainsFunc(c.h.Requests, func(r Request) bool {
		return r.Verb == verb && max(r.Asked, r.Over) >= after && (r.Job == job.ID || job.Array != 0 && r.Job == job.Array)
	})
}

// checkGang: a run of a gang has all its nodes, and one that is complete ran a
// task on each.
func (c *checker) checkGang(job *Job, s *Submission, runs []*Run) {
	where := map[string]bool{}
	for _, run := range runs {
		if run.Moved {
			continue // its record knows only where it began
		}
		if len(run.Nodes) != s.Nodes || !slices.Contains(run.Nodes, run.Node) {
			c.wrong(PartialGang, job.ID, "%s: the job has the nodes %v, and needs %d", run.What(), run.Nodes, s.Nodes)
		}
		if !run.Batch && run.Epoch == job.Epoch && run.Ended && run.Code == 0 {
			where[run.Node] = true
		}
	}
	if job.State == "COMPLETED" && len(where) != s.Nodes && s.Counts == 0 {
		c.wrong(PartialGang, job.ID, "job %d (%s) is complete, and its tasks ended well only on %v of %d nodes", job.ID, job.Name, slices.Sorted(maps.Keys(where)), s.Nodes)
	}
}
