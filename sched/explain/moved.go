package explain

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/sched"
)

// Moved is why a job does not start when it was planned to, in a sentence; "" where it was
// not planned to start sooner, or less than a second, which no time that is shown tells.
// startMS is when it is planned now; 0 = it is not.
func Moved(m sched.Moved, startMS int64) string {
	if m.FromMS == 0 || startMS != 0 && startMS-m.FromMS < 1000 {
		return ""
	}
	planned := "has no planned start any more"
	if startMS != 0 {
		planned = fmt.Sprintf("starts %s later than it was planned to", minutes(uint64(startMS-m.FromMS)/1000))
	}
	return planned + ": " + moveCause(m)
}

func moveCause(m sched.Moved) string {
	switch m.By {
	case sched.MovedByPriority:
		return fmt.Sprintf("job %d goes before it", m.Job)
	case sched.MovedByJob:
		if m.Node == "" {
			return fmt.Sprintf("job %d keeps its licenses longer than it was to", m.Job)
		}
		return fmt.Sprintf("job %d stays on node %s longer than it was to", m.Job, m.Node)
	case sched.MovedByNode:
		return fmt.Sprintf("node %s is not available, or has less than it had", m.Node)
	case sched.MovedByLimits:
		return "by the time limits of jobs it cannot start then, and what they were predicted to run was too short"
	case sched.MovedByReservation:
		return fmt.Sprintf("node %s is reserved then", m.Node)
	case sched.MovedByOwner:
		return fmt.Sprintf("node %s is its owner's then", m.Node)
	case sched.MovedByHabit:
		return fmt.Sprintf("the owner of node %s probably takes it back then", m.Node)
	}
	return "fewer starts are planned, or there are fewer licenses"
}
