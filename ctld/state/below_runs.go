package state

import (
	"fmt"
	"slices"
)

// BelowWhatRuns names the limits that a command has set below what runs
// already: running jobs continue, as in Slurm, and new jobs wait. The View must
// have the command applied.
func (v *View) BelowWhatRuns(c *ChangeAccounts) []string {
	var notes []string
	for i := range c.Changes {
		change := &c.Changes[i]
		for _, limit := range change.Limits {
			if limit.Clear || change.Action == DeleteRecord {
				continue
			}
			if has, above := v.runsAbove(change, &limit); above {
				notes = append(notes, fmt.Sprintf("%s of %s is below what runs there now (%d): running jobs continue, new ones wait", limit.name(), change.subject(), has))
			}
		}
	}
	return notes
}

// subject is what a change is about, in words.
func (c *AccountChange) subject() string {
	switch c.Record {
	case QOSRecord:
		return "QOS " + quotedUnlessValid(c.QOS)
	case AccountRecord:
		return describeAssociation(c.Account, "", "")
	}
	return describeAssociation(c.Account, c.User, c.Partition)
}

func (c *LimitChange) name() string {
	if c.TRES == "" {
		return c.Limit.row().name
	}
	return c.Limit.row().name + "=" + c.TRES
}

// runsAbove counts what runs under the association or QOS of a change, in the
// unit of GrpJobs and GrpTRES, and the same for a user's own limits.
func (v *View) runsAbove(c *AccountChange, limit *LimitChange) (has uint64, above bool) {
	if !slices.Contains([]LimitKind{LimitGroupJobs, LimitGroupTRES, LimitMaxJobs}, limit.Limit) ||
		limit.Limit == LimitMaxJobs && c.Record != AssociationRecord {
		return 0, false
	}
	for job := range v.LiveJobs() {
		if job.HoldsNodes() && v.concerns(c, job) {
			has += job.holds(limit.TRES)
		}
	}
	return has, has > limit.Value
}

// concerns reports whether a job counts under the record that a change is about.
func (v *View) concerns(c *AccountChange, job *Job) bool {
	if c.Record == QOSRecord {
		return job.Spec.QOS == c.QOS
	}
	association, known := v.Association(job.Association)
	if !known {
		return false
	}
	if c.Record == AccountRecord {
		return v.IsBelow(association.Account, c.Account)
	}
	return association.Account == c.Account && association.User == c.User && association.Partition == c.Partition
}

// holds is how much of a TRES a running job holds; without a TRES: itself.
func (j *Job) holds(tres string) uint64 {
	if tres == "" {
		return 1
	}
	has := uint64(0)
	for i := range j.Run.Allocs {
		alloc := &j.Run.Allocs[i]
		if alloc.Released {
			continue
		}
		switch tres {
		case "cpu":
			has += uint64(len(alloc.CPUs))
		case "mem":
			has += alloc.MemoryBytes
		case "node":
			has++
		case "gres/gpu":
			has += uint64(len(alloc.Devices))
		default:
			for _, device := range alloc.Devices {
				if tres == "gres/gpu:"+device.Model {
					has++
				}
			}
		}
	}
	return has
}
