package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ReasonReclaimed is the reason of jobs that stop for the owner of a node. Slurm has no word
// for it.
const ReasonReclaimed = "Reclaimed"

// reclaimedWord says for which reclaimed nodes a suspended job stops, and what happens next;
// "" when none of its nodes is reclaimed any more.
func (t *tables) reclaimedWord(job *Job) string {
	var parked, open []string
	by, what := "", "node"
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, known := t.nodes.Get(alloc.Node)
		if !known || alloc.Released || !t.keptFrom(job, node) {
			continue
		}
		by = node.Reclaim.by()
		if node.keepsSome() {
			what = "GPUs of node"
		}
		if alloc.Parked {
			parked = append(parked, alloc.Node)
		} else {
			open = append(open, alloc.Node)
		}
	}
	switch {
	case len(open) > 0:
		return fmt.Sprintf("%s reclaimed %s %s, and it is being parked there", by, what, spec.FormatHostList(open))
	case len(parked) > 0:
		return fmt.Sprintf("parked: %s reclaimed %s %s; continues where it stopped when that is lent again and its GPUs and CPUs are free", by, what, spec.FormatHostList(parked))
	}
	return ""
}

// takerOf is a job that has a device of a parked allocation; 0 = they are free.
func (t *tables) takerOf(alloc *Alloc) uint32 {
	if !alloc.Parked {
		return 0
	}
	wanted := make(map[string]bool, len(alloc.Devices))
	for _, device := range alloc.Devices {
		wanted[device.ID] = true
	}
	for other := range t.JobsOn(alloc.Node) {
		held := other.Alloc(alloc.Node)
		if held == nil || held.Released || held.Parked {
			continue
		}
		for _, device := range held.Devices {
			if wanted[device.ID] {
				return other.ID
			}
		}
	}
	return 0
}
