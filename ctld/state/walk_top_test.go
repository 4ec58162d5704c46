package state

import "slices"

// top exchanges nice values of waiting jobs, some of which are not as the plan says.
func (w *walker) top(v *View) Command {
	c := TopJobs{UID: w.uid(), Privileged: w.chance(60)}
	for job := range v.Jobs(0) {
		if job.Phase == Waiting && len(c.Changes) < 4 && w.chance(50) {
			c.Changes = append(c.Changes, NiceChange{Job: job.ID, From: job.Spec.Nice, To: job.Spec.Nice + int32(w.Intn(7)) - 3})
		}
	}
	if len(c.Changes) > 0 && w.chance(20) {
		c.Changes = append(c.Changes, slices.Clone(c.Changes[:1])...)
	}
	return c
}
