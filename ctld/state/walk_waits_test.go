package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// waits lets a submission of the walk wait for other jobs, and for times.
func (w *walker) waits(v *View, c *SubmitJob) {
	if w.chance(50) {
		c.Dependencies = w.dependencies(v)
	}
	if other, known := v.Job(w.someJob(v)); known && other.Array != 0 && w.chance(30) { // an array alike
		c.Spec.ArrayTasks = other.Spec.ArrayTasks
		c.Dependencies = Dependencies{List: []Dependency{{Kind: spec.AfterCorr, Job: other.Array}}}
	}
	c.Spec.KillOnInvalidDependency = w.chance(40)
	if w.chance(10) {
		c.BeginMS = v.TimeMS() + int64(w.Intn(20_000))
	}
	if w.chance(10) {
		c.Spec.TimeLimitS = []uint32{5, 10, sched.Unlimited}[w.Intn(3)]
		c.DeadlineMS = v.TimeMS() + int64(w.Intn(40_000))
	}
	if limit := c.Spec.TimeLimitS; w.chance(20) && limit > 1 {
		c.Spec.TimeMinS = 1 + uint32(w.Intn(int(min(limit, 600))))
	}
	if w.chance(5) {
		c.FixedPriority = uint32(w.Intn(10))
	}
}

func (w *walker) dependencies(v *View) Dependencies {
	d := Dependencies{Any: w.chance(30)}
	for range 1 + w.Intn(3) {
		one := Dependency{Kind: spec.DependencyKind(1 + w.Intn(6))}
		if one.Kind == spec.Singleton {
			d.List = append(d.List, one)
			continue
		}
		one.Job = w.someJob(v)
		if job, known := v.Job(one.Job); known && job.Array != 0 {
			if w.chance(70) || one.Kind == spec.AfterCorr {
				one.Job = job.Array
			}
			if w.chance(40) && one.Kind != spec.AfterCorr {
				one.Job, one.HasTask, one.Task = job.Array, true, uint32(w.Intn(16))
			}
		} else if one.Kind == spec.AfterCorr && w.chance(95) {
			one.Kind = spec.AfterAny
		}
		if one.Kind == spec.After && w.chance(30) {
			one.DelayS = uint32(w.Intn(20))
		}
		d.List = append(d.List, one)
	}
	return d
}

// update makes a change of a few things at once.
func (w *walker) update(v *View) Command {
	c := UpdateJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(80)}
	number := func(percent int, below int) *uint32 {
		if !w.chance(percent) {
			return nil
		}
		n := uint32(w.Intn(below))
		return &n
	}
	c.Change = JobChange{
		TimeLimitS: number(30, 500), Priority: number(10, 3), CPUsPerTask: number(10, 5), MaxRunning: number(10, 4),
		MinNodes: number(10, 4), MaxNodes: number(5, 4),
	}
	if w.chance(60) {
		d := w.dependencies(v)
		if w.chance(60) {
			d = Dependencies{} // lets those go that wait forever
		}
		c.Change.Dependencies = &d
	}
	if w.chance(20) {
		name := fmt.Sprint(w.Intn(4))
		c.Change.Name = &name
		c.Change.Checkpoint = &[]string{"", "app", "none", "system"}[name[0]-'0']
	}
	if w.chance(20) {
		begin := v.TimeMS() + int64(w.Intn(20_000)) - 5_000
		c.Change.BeginMS = &begin
	}
	if w.chance(10) {
		deadline := v.TimeMS() + int64(w.Intn(40_000))
		c.Change.DeadlineMS = &deadline
	}
	if w.chance(10) {
		c.Change.AddTimeS = int64(w.Intn(200)) - 100
		c.Change.TimeLimitS = nil
	}
	if w.chance(5) {
		c.Change.Partitions = []string{[]string{"main", "gpu", "none"}[w.Intn(3)]}
	}
	if w.chance(10) {
		kill := w.chance(50)
		c.Change.KillOnInvalidDependency = &kill
	}
	c.Change.ResetAge, c.Change.TimeMinS = w.chance(5), number(10, 100)
	return c
}

// tallyWaits counts what came of waiting, to show that the walk meets it.
func tallyWaits(s *State, command Command, result *Result, tally map[string]int) {
	switch command.(type) {
	case UpdateJobs:
		for _, job := range result.Jobs {
			if job.Code == OK {
				tally["updated"]++
			}
		}
	case EndLateJobs:
		tally["late"] += len(result.ChangedJobs)
	}
	for _, id := range result.ChangedJobs {
		job, known := s.Job(id)
		if !known {
			continue
		}
		if job.End != nil && job.End.Reason == ReasonDependencyNeverSatisfied {
			tally["cancelled"]++
		}
		if job.TasksFailed {
			tally["failure handed on"]++
		}
		for _, one := range job.Dependencies.List {
			tally[one.Kind.String()+" "+one.State.String()]++
		}
	}
}
