package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has how the allocations of a job on several nodes are saved as one.
// All are frozen, from the instant at which each was stopped until all are
// saved: then they continue together, or end together. There is an image of the
// job when there is one of each allocation; until then none is used, and if one
// fails or is late, all continue.

// gangSaveMatters reports whether a report on one allocation changes anything:
// it is of the save that is under way, and new.
func (j *Job) gangSaveMatters(report *SaveReport) bool {
	saving := j.Run.Saving
	switch {
	case saving == nil || saving.Number != report.Number:
		return false // an image without all its allocations does not count
	case report.Digest == (Digest{}):
		return true
	}
	return !saving.has(report.Node) || !report.Frozen
}

// has reports whether the allocation of a node is saved.
func (s *Saving) has(node string) bool {
	return s.Made != nil && slices.ContainsFunc(s.Made.Allocs, func(p ImageAlloc) bool { return p.Node == node && p.Digest != (Digest{}) })
}

// gangAllocSaved records a report that matters. With the last allocation the
// image is complete.
func (s *State) gangAllocSaved(job *Job, report *SaveReport) {
	switch {
	case report.Digest == (Digest{}):
		s.saveFailed(job, fmt.Sprintf("node %s: %s", report.Node, report.Error), true)
		return
	case !report.Frozen:
		s.saveFailed(job, fmt.Sprintf("node %s: its allocation ran on before those of all nodes were saved", report.Node), true)
		return
	}
	saving := *job.Run.Saving
	made := imageNeed(job)
	if saving.Made != nil {
		made = *saving.Made
		made.Allocs = slices.Clone(made.Allocs)
	}
	s.addAlloc(job, &made, report)
	saving.Made = &made
	next := *job
	next.setSaving(&saving)
	if !made.whole() {
		s.putJob(&next)
		return
	}
	s.gangSaved(&next, &saving)
}

// gangSaved lets all allocations of a job continue, or ends its run, since each
// has its image.
func (s *State) gangSaved(job *Job, saving *Saving) {
	next, saved := job.withSaved()
	image := *saving.Made
	image.StandingMS = max(image.StandingMS, uint32(min(s.timeMS-image.SavedMS, maxStandingMS)))
	saved.add(job, image)
	saved.Saves++
	saved.FailedNumber, saved.Failed, saved.FailedMS = 0, "", 0
	saved.StandingMS += uint64(image.StandingMS)
	next.setSaving(nil)
	if saving.Purpose.stands() {
		s.standsSaved(next, saving)
		return
	}
	next.abortSave(saving.Number)
	s.putJob(next)
}

// maxStandingMS is the longest time that an image records its job as frozen.
const maxStandingMS = 1<<32 - 1

// otherNames are the names by which the processes of a run know its nodes, in the
// order of the allocations; none where these are their names.
func (r *Run) otherNames() []string {
	if r.Restore == nil || slices.Equal(r.Restore.KnownAs(), r.nodes()) {
		return nil
	}
	return r.Restore.KnownAs()
}

// uneven says why a job on several nodes cannot be saved, since it does not
// have the same on each: where it resumes from an image it could get another
// share.
func (r *Run) uneven() string {
	first := &r.Allocs[0]
	for i := range r.Allocs {
		switch p := &r.Allocs[i]; {
		case p.Tasks != first.Tasks:
			return fmt.Sprintf("it has %d tasks on node %s and %d on node %s, and only a job with as many on each of its nodes is saved: submit it with --ntasks-per-node", first.Tasks, first.Node, p.Tasks, p.Node)
		case len(p.Devices) != len(first.Devices):
			return fmt.Sprintf("it has %d GPUs on node %s and %d on node %s, and only a job with as many on each of its nodes is saved: submit it with --gpus-per-node", len(first.Devices), first.Node, len(p.Devices), p.Node)
		}
	}
	return ""
}

// neverWentOn reports whether an allocation of a run that resumes from an image
// ended before any of it ran: the allocations of a job on several nodes are
// frozen until all are restored, so there it does not matter why.
func (j *Job) neverWentOn(report *AllocReport) bool {
	if j.Run.Restore == nil || !j.Configuring() {
		return false
	}
	switch report.Cause {
	case pb.EndCause_END_CAUSE_RESTORE_FAILED, pb.EndCause_END_CAUSE_IMAGE_AWAY:
		return true
	case pb.EndCause_END_CAUSE_NODE_FAULT, pb.EndCause_END_CAUSE_NODE_FULL, pb.EndCause_END_CAUSE_OTHER_ACCOUNT, pb.EndCause_END_CAUSE_NOT_ADMITTED:
		return !j.Alloc(report.Node).Ready // so it was not started
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED, pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, pb.EndCause_END_CAUSE_LEASE_ENDED:
		return j.IsGang()
	}
	return false
}

// NotSavable says why a running job cannot be saved whatever its nodes say; ""
// when its nodes decide.
func (j *Job) NotSavable() string {
	if j.stages() {
		return "its files are being copied"
	}
	if !j.IsGang() {
		return ""
	}
	return j.Run.uneven()
}
