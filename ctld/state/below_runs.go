package state

import (
	"fmt"
	"slices"
)

// BelowWhatRuns tells of limits that a command has set and that what runs is
// above already: it goes on, as in Slurm, and new jobs wait. The View is one in
// which the command was carried out.
func (v *View) BelowWhatRuns(c *ChangeAccounts) []string {
	var notes []string
	for i := range c.Changes {
		change := &c.Changes[i]
		for _, limit := range change.Limits {
			if limit.Clear || change.Action == DeleteRecord {
				continue
			}
			if has, above := v.runsAbove(change, &limit); above {
				notes = append(notes, fmt.Sprintf("%s of %s is below what runs there now (%d): running jobs go on, new ones wait", limit.name(), change.subject(), has))
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

// runsAbove counts what runs under the association or QOS of a change, of what
// GrpJobs and GrpTRES count, and the same of a user's own limits.
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

// concerns says whether a job counts under the record that a change is about.
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

// holds is how much of a TRES a running job holds; one of no TRES: itself.
func (j *Job) holds(tres string) uint64 {
	if tres == "" {
		return 1
	}
	has := uint64(0)
	for i := range j.Run.Parts {
		part := &j.Run.Parts[i]
		if part.Released {
			continue
		}
		switch tres {
		case "cpu":
			has += uint64(len(part.CPUs))
		case "mem":
			has += part.MemoryBytes
		case "node":
			has++
		case "gres/gpu":
			has += uint64(len(part.Devices))
		default:
			for _, device := range part.Devices {
				if tres == "gres/gpu:"+device.Model {
					has++
				}
			}
		}
	}
	return has
}
