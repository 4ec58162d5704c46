package state

import "slices"

// This file tries commands without applying them: it answers what would be if one came.

// trialSlots is how many shapes a tried command may add.
const trialSlots = 4

// Try returns the state as it would be after a command at a time of the log, and what the
// command would answer; this View stays as it is. Of the jobs in the state the command may
// change only those named here. Only one goroutine may call it at a time.
func (v *View) Try(command Command, nowMS int64, jobs ...*Job) (*View, Result) {
	s := &State{tables: v.tables.copy(), shared: newShared(), requests: newRequestIndex()}
	s.timeMS = max(s.timeMS, nowMS)
	// The elements behind those that a View sees belong to the State.
	s.outbox.records, s.endedRuns = slices.Clip(s.outbox.records), slices.Clip(s.endedRuns)
	for slot := range uint32(trialSlots) {
		s.shared.slots = append(s.shared.slots, v.shapeSlots+trialSlots-1-slot)
	}
	for _, job := range jobs {
		s.shared.adopt(job)
	}
	result := Result{Kind: command.kind(), TimeMS: s.timeMS}
	command.apply(s, &result)
	return &View{tables: s.tables}, result
}

// adopt enters what a job of another State refers to, so that the references of its
// record can be counted.
func (s *shared) adopt(job *Job) {
	spec := job.Spec
	refer(s.owners, spec.owner.digest, spec.owner)
	refer(s.shapes, spec.shape.digest, spec.shape)
	refer(s.specs, spec.digest, spec)
	refer(s.specs, spec.digest, spec) // the record's, and one that stays
	for _, blob := range []*Blob{job.Script, job.Environment} {
		if blob == nil {
			continue
		}
		refer(s.blobs, blob.Digest, blob)
		refer(s.blobs, blob.Digest, blob)
		s.held[heldBlob{job.Owner().UID, blob.Digest}] += 2
	}
}
