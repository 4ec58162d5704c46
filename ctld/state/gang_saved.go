package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has how the parts of a job on several nodes are saved as one. All
// stand still, from the instant at which each was stopped until all are saved:
// then they go on together, or end together. There is an image of the job when
// there is one of each part; until then none is used, and if one fails or is
// late, all go on.

// gangSaveMatters says whether a report on one part changes anything: it is of the
// save that is under way, and new.
func (j *Job) gangSaveMatters(report *SaveReport) bool {
	saving := j.Run.Saving
	switch {
	case saving == nil || saving.Number != report.Number:
		return false // an image of which parts are missing is none
	case report.Digest == (Digest{}):
		return true
	}
	return !saving.has(report.Node) || !report.Stands
}

// has says whether the part of a node is saved.
func (s *Saving) has(node string) bool {
	return s.Made != nil && slices.ContainsFunc(s.Made.Parts, func(p ImagePart) bool { return p.Node == node && p.Digest != (Digest{}) })
}

// gangPartSaved takes in a report that matters. With the last part there is an
// image.
func (s *State) gangPartSaved(job *Job, report *SaveReport) {
	switch {
	case report.Digest == (Digest{}):
		s.saveFailed(job, fmt.Sprintf("node %s: %s", report.Node, report.Error), true)
		return
	case !report.Stands:
		s.saveFailed(job, fmt.Sprintf("node %s: its part ran on before those of all nodes were saved", report.Node), true)
		return
	}
	saving := *job.Run.Saving
	made := imageNeed(job)
	if saving.Made != nil {
		made = *saving.Made
		made.Parts = slices.Clone(made.Parts)
	}
	s.addPart(job, &made, report)
	saving.Made = &made
	next := *job
	next.setSaving(&saving)
	if !made.whole() {
		s.putJob(&next)
		return
	}
	s.gangSaved(&next, &saving)
}

// gangSaved has all parts of a job go on, or its run end, since each has its image.
func (s *State) gangSaved(job *Job, saving *Saving) {
	next, saved := job.withSaved()
	image := *saving.Made
	image.StandingMS = max(image.StandingMS, uint32(min(s.timeMS-image.SavedMS, maxStandingMS)))
	saved.add(image)
	saved.Saves++
	saved.FailedNumber, saved.Failed, saved.FailedMS = 0, "", 0
	saved.StandingMS += uint64(image.StandingMS)
	next.setSaving(nil)
	if saving.Purpose.stands() {
		s.leave(next, saving, saving.Number)
		return
	}
	next.takeBack(saving.Number)
	s.putJob(next)
}

// maxStandingMS is where the time for which an image let its job stand is cut off.
const maxStandingMS = 1<<32 - 1

// otherNames are the names by which the processes of a run know its nodes, in the
// order of the parts; none where these are their names.
func (r *Run) otherNames() []string {
	if r.Restore == nil || len(r.Parts) == 1 || slices.Equal(r.Restore.KnownAs(), r.nodes()) {
		return nil
	}
	return r.Restore.KnownAs()
}

// uneven says why a job on several nodes cannot be saved, since it has not the
// same on each: where it goes on from an image it could get another share.
func (r *Run) uneven() string {
	first := &r.Parts[0]
	for i := range r.Parts {
		switch p := &r.Parts[i]; {
		case p.Tasks != first.Tasks:
			return fmt.Sprintf("it has %d tasks on node %s and %d on node %s, and only a job with as many on each of its nodes is saved: submit it with --ntasks-per-node", first.Tasks, first.Node, p.Tasks, p.Node)
		case len(p.Devices) != len(first.Devices):
			return fmt.Sprintf("it has %d GPUs on node %s and %d on node %s, and only a job with as many on each of its nodes is saved: submit it with --gpus-per-node", len(first.Devices), first.Node, len(p.Devices), p.Node)
		}
	}
	return ""
}

// neverWentOn says whether a part ended of a run that goes on from an image, before
// anything of it ran: the parts of a job on several nodes stand until all are
// restored, so there it does not matter why.
func (j *Job) neverWentOn(report *PartReport) bool {
	if j.Run.Restore == nil || !j.Configuring() {
		return false
	}
	switch report.Cause {
	case pb.EndCause_END_CAUSE_RESTORE_FAILED:
		return true
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED, pb.EndCause_END_CAUSE_UNKNOWN_PART, pb.EndCause_END_CAUSE_LEASE_ENDED:
		return j.IsGang()
	}
	return false
}

// NotSavable says why a running job cannot be saved whatever its nodes say; ""
// when it is up to them.
func (j *Job) NotSavable() string {
	if !j.IsGang() {
		return ""
	}
	return j.Run.uneven()
}
