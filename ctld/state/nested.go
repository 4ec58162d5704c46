package state

import "github.com/gleaner-hpc/gleaner/ctld/state/policy"

// nestedOn says whether a job may make containers of its own on a node: its partition
// allows it, and where it is a guest the owner too.
func (t *tables) nestedOn(job *Job, partition *policy.Partition, node string) bool {
	if !partition.NestedContainers {
		return false
	}
	on, known := t.nodes.Get(node)
	if !known || t.OwnersJob(job, node) {
		return known
	}
	if on.Lending == nil {
		return t.policy.OwnerOf(node) == "" // of the site's own the partition speaks
	}
	return on.Lending.Nested
}
