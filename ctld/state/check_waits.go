package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// countWaits says under which jobs that it waits for a record should be found.
func (c *census) countWaits(job *Job) {
	if job.Phase == Finished {
		return
	}
	name := pair(nameKey(job), job.ID)
	if job.Phase != Waiting {
		c.activeNames[name] = true
		return
	}
	c.waitingNames[name] = true
	for _, one := range job.Dependencies.List {
		switch {
		case one.Kind == spec.Singleton:
			c.singletons[name] = true
		case one.State == Unfulfilled:
			c.dependents[pair(one.Job, job.ID)] = true
		}
	}
	if job.DeadlineMS != 0 {
		start := job.DeadlineMS
		if limit := job.leastLeftS(); limit != sched.Unlimited {
			start -= int64(limit) * 1000
		}
		c.late[pair(uint32(max(start, 0)/1000), job.ID)] = true
	}
}

// checkWaits names a dependency that should have been decided and is not.
func (t *tables) checkWaits() error {
	for job := range t.LiveJobs() {
		if job.Phase != Waiting {
			continue
		}
		if state, _ := job.Dependencies.standing(); state == Failed && job.Spec.KillOnInvalidDependency {
			return fmt.Errorf("job %d waits for what can never be, and should be cancelled", job.ID)
		}
		for _, one := range job.Dependencies.List {
			if err := t.checkWait(job, one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tables) checkWait(job *Job, one Dependency) error {
	if one.Kind == spec.Singleton {
		if by := t.blocked(job); (by == 0) != (one.State == Fulfilled) {
			return fmt.Errorf("job %d: its singleton is %s, and job %d is before it", job.ID, one.State, by)
		}
		return nil
	}
	if one.State != Unfulfilled {
		return nil
	}
	members := slices.Collect(t.Members(one.Job))
	if plain, known := t.Job(one.Job); len(members) == 0 && known {
		members = []*Job{plain}
	}
	over, begun := len(members) > 0, len(members) > 0
	for _, member := range members {
		mine := !one.HasTask || member.containsTask(one.Task)
		if one.Kind == spec.AfterCorr && member.Phase == Finished && len(job.tasksWithin(member.ownTasks())) > 0 {
			return fmt.Errorf("job %d: aftercorr:%d is not decided for tasks that are over", job.ID, one.Job)
		}
		over = over && (!mine || member.Phase == Finished)
		begun = begun && (!mine || member.Phase != Waiting)
	}
	if over || len(members) == 0 || begun && one.Kind == spec.After {
		return fmt.Errorf("job %d: its dependency %s:%d should be decided: %d records, over %t", job.ID, one.Kind, one.Job, len(members), over)
	}
	return nil
}
