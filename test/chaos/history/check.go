package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// second is one in a History's unit of time.
const second = 1_000_000

// aftermath is how long before a run a fault may have ended, and how long after
// it have begun, to have something to do with it: a node that comes back is told
// only then what it has lost.
const aftermath = 30 * second

// checker goes through one history.
type checker struct {
	h           *History
	submissions map[string]*Submission
	jobs        map[uint32]*Job // by their own number
	byName      map[string][]*Job
	runs        map[uint32][]*Run // of each job, by epoch and start
	found       []Violation
}

// Check returns all that is wrong with a history, jobs in the order of their
// numbers. An empty answer means that all is well.
func Check(h *History) []Violation {
	c := &checker{
		h: h, submissions: map[string]*Submission{}, jobs: map[uint32]*Job{},
		byName: map[string][]*Job{}, runs: map[uint32][]*Run{},
	}
	c.index()
	c.checkAccounts()
	c.checkRecords()
	for _, job := range slices.Sorted(maps.Keys(c.runs)) {
		c.checkOverlap(c.runs[job])
	}
	c.checkDevices()
	c.checkNames()
	c.checkShared()
	for i := range h.Jobs {
		c.checkJob(&h.Jobs[i])
	}
	c.checkDatabases()
	c.checkPromises()
	c.checkHosts()
	return c.found
}

func (c *checker) wrong(wrong Wrong, job uint32, format string, args ...any) {
	c.found = append(c.found, Violation{Wrong: wrong, Job: job, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) index() {
	for i := range c.h.Submissions {
		s := &c.h.Submissions[i]
		c.submissions[s.Name] = s
	}
	for i := range c.h.Jobs {
		job := &c.h.Jobs[i]
		c.jobs[job.ID] = job
		c.byName[job.Name] = append(c.byName[job.Name], job)
	}
	for i := range c.h.Runs {
		run := &c.h.Runs[i]
		c.runs[run.Job] = append(c.runs[run.Job], run)
	}
	for _, runs := range c.runs {
		slices.SortStableFunc(runs, func(a, b *Run) int {
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Start, b.Start))
		})
	}
}

// number is what gsubmit printed for a job: that of its array, if it has one.
func (j *Job) number() uint32 {
	if j.Array != 0 {
		return j.Array
	}
	return j.ID
}

// checkAccounts compares what was submitted with what is there.
func (c *checker) checkAccounts() {
	for i := range c.h.Submissions {
		c.checkSubmission(&c.h.Submissions[i])
	}
	for i := range c.h.Jobs {
		job := &c.h.Jobs[i]
		if s := c.submissions[job.Name]; s == nil || s.Refused {
			c.wrong(NotAccepted, job.ID, "job %d (%s) is in the list, and nobody's submission was accepted under this name", job.ID, job.Name)
		}
	}
}

func (c *checker) checkSubmission(s *Submission) {
	numbers := map[uint32]bool{}
	tasks := map[int]int{}
	for _, job := range c.byName[s.Name] {
		numbers[job.number()] = true
		tasks[job.Index]++
	}
	if s.Job != 0 && !numbers[s.Job] {
		c.wrong(Lost, s.Job, "job %d (%s) was accepted and is not in the list", s.Job, s.Name)
	}
	if len(numbers) > 1 {
		c.wrong(Doubled, s.Job, "the submission %s made %d jobs: %v", s.Name, len(numbers), slices.Sorted(maps.Keys(numbers)))
		return
	}
	if s.Tasks == 0 || len(numbers) == 0 {
		return
	}
	for index := range s.Tasks {
		switch {
		case tasks[index] == 0 && tasks[-1] == 0: // else it waits in the array's record, which is reported as not ended
			c.wrong(Lost, s.Job, "task %d of the array %d (%s) is not in the list", index, s.Job, s.Name)
		case tasks[index] > 1:
			c.wrong(Doubled, s.Job, "task %d of the array %d (%s) is in the list %d times", index, s.Job, s.Name, tasks[index])
		}
	}
}

// checkRecords: nothing runs that is not in the list.
func (c *checker) checkRecords() {
	for i := range c.h.Runs {
		run := &c.h.Runs[i]
		job := c.jobs[run.Job]
		switch {
		case job == nil:
			c.wrong(NotAccepted, run.Job, "%s: it ran and is not in the list", run.What())
		case job.Name != run.Name:
			c.wrong(NotAccepted, run.Job, "%s: the list has job %d as %s", run.What(), job.ID, job.Name)
		case run.Epoch > job.Epoch:
			c.wrong(NotAccepted, run.Job, "%s: the list knows %d runs only", run.What(), job.Epoch)
		}
	}
}

// checkOverlap: of one job's runs, none shows a sign of life after a later one
// has begun, and none was started twice. A run that was frozen meanwhile and
// then gave one more sign of life has run twice at once.
func (c *checker) checkOverlap(runs []*Run) {
	var former *Run // that with the last sign of life among earlier epochs
	for from := 0; from < len(runs); {
		to := from
		for to < len(runs) && runs[to].Epoch == runs[from].Epoch {
			to++
		}
		latest := former
		started := map[int]*Run{}
		for _, run := range runs[from:to] {
			if former != nil && run.Start <= former.Last {
				c.wrong(Overlap, run.Job, "%s began %s before the last sign of life of %s", run.What(), seconds(former.Last-run.Start), former.What())
			}
			slot := run.Task
			if run.Batch {
				slot = -1
			}
			if twin := started[slot]; twin != nil {
				c.wrong(Overlap, run.Job, "%s was started twice: at %d and at %d", run.What(), twin.Start, run.Start)
			}
			started[slot] = run
			if latest == nil || run.Last > latest.Last {
				latest = run
			}
		}
		former, from = latest, to
	}
}

// seconds writes a span of time.
func seconds(span int64) string { return fmt.Sprintf("%.3f s", float64(span)/second) }

// checkNames: whoever resumes from an image has its devices under the names that it
// knows, and opens one behind each.
func (c *checker) checkNames() {
	for i := range c.h.Runs {
		switch run := &c.h.Runs[i]; {
		case run.Moved && !slices.Equal(run.Names, run.Began):
			c.wrong(OtherDevices, run.Job, "%s sees the devices %v, and it began with %v", run.What(), run.Names, run.Began)
		case len(run.Devices) != len(run.Names):
			c.wrong(OtherDevices, run.Job, "%s sees the devices %v, and can open %v", run.What(), run.Names, run.Devices)
		}
	}
}

// checkDevices: no device can be opened by two runs at the same time, but for those that
// are parked meanwhile.
func (c *checker) checkDevices() {
	type holding struct {
		run   *Run // the first of its run of the job on this device
		spans []stretch
	}
	type holder struct {
		device     string
		job, epoch uint32
	}
	holdings := map[holder]*holding{}
	devices := map[string][]*holding{}
	for i := range c.h.Runs {
		run := &c.h.Runs[i]
		for _, device := range run.Devices {
			key := holder{device, run.Job, run.Epoch}
			held := holdings[key]
			if held == nil {
				held = &holding{run: run}
				holdings[key] = held
				devices[device] = append(devices[device], held)
			}
			held.spans = append(held.spans, run.active()...)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		for i, held := range devices[device] {
			for _, other := range devices[device][:i] {
				if common := overlap(held.spans, other.spans); common > 0 && held.run.Job != other.run.Job { // else it is an overlap of runs, and told as that
					c.wrong(DeviceTwice, held.run.Job, "%s had %s while %s had it, for %s", held.run.What(), device, other.run.What(), seconds(common))
				}
			}
		}
	}
}

// stretch is a time without a long pause between signs of life.
type stretch struct{ from, to int64 }

// longPause is between two signs of life of a run that was stopped meanwhile: others may
// have had its devices.
const longPause = 3 * second / 2

// active are the times in which a run gave signs of life, without the pauses in which it
// may have been parked.
func (r *Run) active() []stretch {
	if len(r.Signs) == 0 {
		return []stretch{{r.Start, r.Last}}
	}
	all := []stretch{{r.Signs[0], r.Signs[0]}}
	for _, sign := range r.Signs[1:] {
		if last := &all[len(all)-1]; sign-last.to <= longPause {
			last.to = sign
		} else {
			all = append(all, stretch{sign, sign})
		}
	}
	return all
}

// overlap is how long two runs were active at the same time; at least 1 if they were.
func overlap(a, b []stretch) (common int64) {
	for _, one := range a {
		for _, other := range b {
			if from, to := max(one.from, other.from), min(one.to, other.to); from <= to {
				common += to - from + 1
			}
		}
	}
	return common
}

// checkHosts: at the end all is free and nothing is left.
func (c *checker) checkHosts() {
	for i := range c.h.Nodes {
		n := &c.h.Nodes[i]
		if n.State != "IDLE" {
			c.wrong(NodeNotFree, 0, "node %s is %s and not IDLE: %s", n.Name, n.State, n.DrainedBecause)
		}
		if len(n.BusyDevices) > 0 || n.AllocatedCPUs > 0 || len(n.JobsThere) > 0 {
			c.wrong(NodeNotFree, 0, "node %s has devices %v, %d CPUs and jobs %v in use", n.Name, n.BusyDevices, n.AllocatedCPUs, n.JobsThere)
		}
		for _, left := range n.LeftOvers {
			c.wrong(LeftBehind, 0, "node %s tells of a left over %s", n.Name, left)
		}
	}
	for _, left := range c.h.Left {
		c.wrong(LeftBehind, 0, "%s", left)
	}
}
