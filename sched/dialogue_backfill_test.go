package sched

import (
	"fmt"
	"strings"
)

// backfill reads "on [reserve=N] [jobs=N] [tasks=N] [shortest]" or "off".
func (d *dialogue) backfill(words []string) error {
	o := options(words[1:])
	_, shortest := o["shortest"]
	d.snapshot.Backfill = BackfillPolicy{
		On: words[0] == "on", PartJobs: uint32(number(o["reserve"], 0)), MaxJobs: uint32(number(o["jobs"], 0)),
		ArrayTasks: uint32(number(o["tasks"], 0)), ShortestFirst: shortest,
	}
	return nil
}

// lowered says which limit was chosen for a job.
func lowered(limitS uint32) string {
	if limitS == 0 {
		return ""
	}
	return fmt.Sprintf(", limit %d min", limitS/60)
}

// planned writes the planned starts, and remembers them for the next pass.
func (d *dialogue) planned(promises Promises) string {
	var out strings.Builder
	for _, p := range promises.Planned {
		fmt.Fprintf(&out, "plan %d in %d min in %s:%s%s\n", p.Job, (p.StartMS-d.snapshot.NowMS)/60_000, d.snapshot.Partitions[p.Partition].Name, d.describe(p.Placement), lowered(p.LimitS))
		if why := MovedSentence(p.Moved, p.StartMS); why != "" {
			fmt.Fprintf(&out, "  %s\n", why)
		}
	}
	for _, l := range promises.Lost {
		fmt.Fprintf(&out, "%d %s\n", l.Job, MovedSentence(l.Moved, 0))
	}
	d.snapshot.Promises = promises
	return out.String()
}
