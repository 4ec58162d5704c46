package acct

import "slices"

// This file says what of a run the controller is asked for. A long answer without the rest
// is made, sent and read in a fraction of the time.

// everyLine is what is needed of a run whatever is shown: which job it is, which lines it
// has, and how each of them ended.
var everyLine = []string{
	"live", "requeued", "job.id", "job.array_job_id", "job.waiting_tasks", "job.state", "job.start_ms", "job.end_ms", "job.exit_signal", "job.cancelled_by_uid",
}

// nothingMore is of columns that show what every line needs.
var nothingMore = []string{}

// fields are what is needed of each run for columns with these names; nil = all of it. Jobs
// that are named are few, and the nodes of those that run are asked about their steps.
func (c *choice) fields(names []string) []string {
	if len(c.targets) > 0 {
		return nil
	}
	wanted := slices.Clone(everyLine)
	if len(c.groups) > 0 {
		wanted = append(wanted, "job.owner.group", "job.owner.gid")
	}
	if c.states != nil {
		wanted = append(wanted, "job.submit_ms")
	}
	for i := range columns {
		if !slices.Contains(names, columns[i].name) {
			continue
		}
		if columns[i].of == nil {
			return nil
		}
		wanted = append(wanted, columns[i].of...)
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}
