package history

import (
	"cmp"
	"slices"
)

// Database is what one controller's history says.
type Database struct {
	Controller string
	Runs       []PastRun
}

// PastRun is a run that is over, as history has it.
type PastRun struct {
	Job      uint32
	Restarts uint32 // how often the job had been requeued before
	Epoch    uint32
	Requeued bool // it waited again afterwards
	State    string
	ExitCode int
	Signal   int
}

// checkDatabases: the history of every controller has each job that ended, once for each
// time that it was requeued and once for its end, and that is the end in the list.
func (c *checker) checkDatabases() {
	for i := range c.h.Databases {
		c.checkDatabase(&c.h.Databases[i])
	}
}

func (c *checker) checkDatabase(d *Database) {
	times := map[uint32]map[uint32][]*PastRun{} // by job and restarts
	for i := range d.Runs {
		run := &d.Runs[i]
		if times[run.Job] == nil {
			times[run.Job] = map[uint32][]*PastRun{}
		}
		times[run.Job][run.Restarts] = append(times[run.Job][run.Restarts], run)
		if job := c.jobs[run.Job]; job == nil || run.Restarts > job.Restarts {
			c.wrong(HistoryWrong, run.Job, "the history of %s has a run of job %d after %d requeues, and the list has no such run", d.Controller, run.Job, run.Restarts)
		}
	}
	jobs := slices.SortedFunc(slices.Values(c.h.Jobs), func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	for i := range jobs {
		if final[jobs[i].State] && !jobs[i].Completing { // else it is not ended, and told as that
			c.checkPast(d, &jobs[i], times[jobs[i].ID])
		}
	}
}

// checkPast compares what a history has of one job with the list.
func (c *checker) checkPast(d *Database, job *Job, runs map[uint32][]*PastRun) {
	for restarts := range job.Restarts + 1 {
		switch found := runs[restarts]; {
		case len(found) == 0:
			c.wrong(HistoryLost, job.ID, "the history of %s lacks the run of job %d (%s) after %d of its %d requeues", d.Controller, job.ID, job.Name, restarts, job.Restarts)
		case len(found) > 1:
			c.wrong(HistoryDoubled, job.ID, "the history of %s has the run of job %d (%s) after %d requeues %d times", d.Controller, job.ID, job.Name, restarts, len(found))
		case restarts == job.Restarts:
			c.checkPastEnd(d, job, found[0])
		}
	}
}

func (c *checker) checkPastEnd(d *Database, job *Job, run *PastRun) {
	want := PastRun{Job: job.ID, Restarts: job.Restarts, Epoch: job.Epoch, State: job.State, ExitCode: job.ExitCode, Signal: job.Signal}
	if *run != want {
		c.wrong(HistoryWrong, job.ID, "the history of %s has the end of job %d (%s) as %+v, and the list as %+v", d.Controller, job.ID, job.Name, *run, want)
	}
}
